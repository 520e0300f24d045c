// Package serve has what "berth serve" adds to the pages of berthweb: a listener, TLS, users,
// and checks against being open by mistake.
package serve

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"

	"github.com/berth-go/berth/cmd/berth/internal/private"
)

// Config has the flags of the command line.
type Config struct {
	Listen, BasePath    string
	AuthFile, TokenFile string // of users with passwords, and of programs
	UserHeader          string // in which a proxy says who it is
	TrustedProxies      []string
	Cert, Key           string
	BehindTLSProxy      bool
	AllowWrite          bool
	AccessLog           bool
	MetricsListen       string       // where Metrics are, without a login; "": nowhere
	Metrics             http.Handler // for Prometheus
}

// Check refuses, before anything is opened, a configuration that would be open to strangers,
// show a secret, or be invalid.
func (c *Config) Check() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen %q: it is not an ADDRESS:PORT such as 127.0.0.1:7357", c.Listen)
	}
	if _, _, err := net.SplitHostPort(c.MetricsListen); c.MetricsListen != "" && err != nil {
		return fmt.Errorf("--metrics-listen %q: it is not an ADDRESS:PORT such as 127.0.0.1:9357", c.MetricsListen)
	}
	tls := c.Cert != "" || c.Key != ""
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case c.UserHeader != "" && len(c.TrustedProxies) == 0:
		return errors.New("--user-header needs --trusted-proxy: without it, everybody could claim to be any user")
	case !private.Loopback(host) && !c.login():
		return fmt.Errorf("--listen %s is open to others: add --auth-file, --token-file or --user-header, or listen on 127.0.0.1", c.Listen)
	case c.login() && !tls && !c.BehindTLSProxy:
		return errors.New("passwords and tokens would go in plain text: add --tls-cert and --tls-key, or --behind-tls-proxy if a proxy in front does it")
	case c.BasePath != "" && !basePath.MatchString(c.BasePath):
		return fmt.Errorf("--base-path %q: it is not a path such as /berth", c.BasePath)
	case c.UserHeader != "" && !token.MatchString(c.UserHeader):
		return fmt.Errorf("--user-header %q: it is not the name of a header", c.UserHeader)
	}
	if _, err := c.proxies(); err != nil {
		return err
	}
	return c.secrets()
}

// login reports whether users must log in.
func (c *Config) login() bool { return c.AuthFile != "" || c.TokenFile != "" || c.UserHeader != "" }

var (
	basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+/?$`)
	token    = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
)

// secrets refuses files with secrets that other users can read.
func (c *Config) secrets() error {
	for flag, name := range map[string]string{"--auth-file": c.AuthFile, "--token-file": c.TokenFile, "--tls-key": c.Key} {
		if name == "" {
			continue
		}
		if err := private.CheckSecret(name); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

// proxies returns the networks of trusted proxies.
func (c *Config) proxies() (all []netip.Prefix, err error) {
	for _, text := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if addr, alone := netip.ParseAddr(text); alone == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxy %q: it is not a network such as 10.0.0.0/8", text)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// lines returns the lines of a file that are neither empty nor comments.
func lines(name string) (all []string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all, nil
}
