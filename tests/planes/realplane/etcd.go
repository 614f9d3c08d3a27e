package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdCommand runs one etcd member on loopback. It does not fsync: a test's data need not survive the machine.
func etcdCommand() *cobra.Command {
	var dataDir, client, peer string
	command := &cobra.Command{
		Use:           "etcd",
		Short:         "One etcd member on loopback, without fsync",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(_ *cobra.Command, _ []string) error {
			config := embed.NewConfig()
			config.Dir = dataDir
			config.LogLevel = "warn"
			config.UnsafeNoFsync = true
			config.QuotaBackendBytes = 2 << 30
			clientURL, err := url.Parse(client)
			if err != nil {
				return fmt.Errorf("--client-url: %w", err)
			}
			peerURL, err := url.Parse(peer)
			if err != nil {
				return fmt.Errorf("--peer-url: %w", err)
			}
			config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
			config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
			config.InitialCluster = config.InitialClusterFromName(config.Name)
			server, err := embed.StartEtcd(config)
			if err != nil {
				return fmt.Errorf("etcd: %w", err)
			}
			defer server.Close()
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
			select {
			case <-stop:
				return nil
			case err := <-server.Err():
				return fmt.Errorf("etcd: %w", err)
			}
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "folder for the data")
	command.Flags().StringVar(&client, "client-url", "", "URL that clients use, on loopback")
	command.Flags().StringVar(&peer, "peer-url", "", "URL that peers would use, on loopback")
	return command
}
