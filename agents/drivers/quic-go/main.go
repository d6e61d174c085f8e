// Transfers one file with quic-go over HTTP/3: the sender is the server of a directory, and the receiver fetches a file
// from it. An option that is not given, or that is "default", has quic-go's own value.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const usage = `owlt-quic-go send --local ADDRESS:PORT --directory DIRECTORY --key FILE --certificate FILE [OPTION VALUE]...
owlt-quic-go receive --output FILE --url URL --secrets FILE [OPTION VALUE]...
options: --handshake-idle-timeout-ms --max-idle-timeout-ms --keep-alive-ms --initial-stream-window-bytes
  --max-stream-window-bytes --initial-connection-window-bytes --max-connection-window-bytes --initial-packet-bytes
  --mtu-discovery (on, off)`

// addOptions adds the options of the transport, which set values of the configuration as they are read.
func addOptions(flags *flag.FlagSet, config *quic.Config) {
	number := func(name string, set func(uint64)) {
		flags.Func(name, "", func(text string) error {
			if text == "default" {
				return nil
			}
			value, err := strconv.ParseUint(text, 10, 62)
			set(value)
			return err
		})
	}
	milliseconds := func(name string, duration *time.Duration) {
		number(name, func(value uint64) { *duration = time.Duration(value) * time.Millisecond })
	}
	bytes := func(name string, count *uint64) { number(name, func(value uint64) { *count = value }) }
	milliseconds("handshake-idle-timeout-ms", &config.HandshakeIdleTimeout)
	milliseconds("max-idle-timeout-ms", &config.MaxIdleTimeout)
	milliseconds("keep-alive-ms", &config.KeepAlivePeriod)
	bytes("initial-stream-window-bytes", &config.InitialStreamReceiveWindow)
	bytes("max-stream-window-bytes", &config.MaxStreamReceiveWindow)
	bytes("initial-connection-window-bytes", &config.InitialConnectionReceiveWindow)
	bytes("max-connection-window-bytes", &config.MaxConnectionReceiveWindow)
	number("initial-packet-bytes", func(value uint64) { config.InitialPacketSize = uint16(min(value, 65535)) })
	flags.Func("mtu-discovery", "", func(text string) error {
		if text != "on" && text != "off" && text != "default" {
			return fmt.Errorf("expected on, off or default")
		}
		config.DisablePathMTUDiscovery = text == "off"
		return nil
	})
}

func send(arguments []string) error {
	flags, config := flag.NewFlagSet("send", flag.ExitOnError), &quic.Config{}
	local, directory := flags.String("local", "", ""), flags.String("directory", "", "")
	key, certificate := flags.String("key", "", ""), flags.String("certificate", "", "")
	addOptions(flags, config)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", *local)
	if err != nil {
		return err
	}
	server := http3.Server{
		Handler:    http.FileServer(http.Dir(*directory)),
		TLSConfig:  http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
		QUICConfig: config,
	}
	return server.Serve(socket)
}

func receive(arguments []string) error {
	flags, config := flag.NewFlagSet("receive", flag.ExitOnError), &quic.Config{}
	output, url, secrets := flags.String("output", "", ""), flags.String("url", "", ""), flags.String("secrets", "", "")
	addOptions(flags, config)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	log, err := os.Create(*secrets)
	if err != nil {
		return err
	}
	transport := &http3.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true, KeyLogWriter: log},
		QUICConfig:         config,
		DisableCompression: true,
	}
	defer transport.Close()
	response, err := (&http.Client{Transport: transport}).Get(*url)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", response.Status)
	}
	file, err := os.Create(*output)
	if err != nil {
		return err
	}
	count, err := io.Copy(file, response.Body)
	fmt.Printf("received %d bytes\n", count)
	return err
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/quic-go/quic-go" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	verbs := map[string]func([]string) error{"send": send, "receive": receive}
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("quic-go", version())
		return
	}
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(1)
	}
	if err := verbs[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "owlt-quic-go:", err)
		os.Exit(1)
	}
}
