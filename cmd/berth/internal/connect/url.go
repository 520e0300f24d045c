package connect

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Forms lists the forms of URLs that Parse accepts, for messages and help.
const Forms = `  redis://[user:password@]host[:port][/db]
  rediss://…                                        (TLS)
  valkey://… and valkeys://…                        (the same)
  unix://[user:password@]/path/to/socket[?db=N]
  redis+sentinel://[user:password@]host[:port][,host…]/master[/db]
  redis+cluster://[user:password@]host[:port][,host…]
  rediss+sentinel:// and rediss+cluster://          (TLS)

Options follow a question mark, with & between them. For TLS:

  ca_file=FILE      authorities to trust instead of the system's, PEM
  cert_file=FILE    client certificate, PEM
  key_file=FILE     its key, PEM without a passphrase
  server_name=NAME  the name in the server's certificate, if it is not the host
  skip_verify=true  trust any certificate

$BERTH_TLS_CA_FILE, $BERTH_TLS_CERT_FILE, $BERTH_TLS_KEY_FILE and
$BERTH_TLS_SERVER_NAME stand in for the first four where the URL has none.
Sentinels have sentinel_username and sentinel_password. client_name and protocol
are as in other clients; berth ignores options of other clients that only tune
their pools, time-outs and replies.`

// The errors of Parse consist of fixed words and of parts of the URL that cannot be secret.
// The errors of net/url, and of go-redis' functions for URLs, quote the input, and if a
// password was not percent-encoded, any part of the input can be the password.
var (
	errForm = errors.New("it is not a valid URL; " +
		"if the password has characters such as # / ? % @ : or a space, percent-encode them")
	errScheme = errors.New("it must start with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
)

var schemes = map[string]struct {
	kind kind
	tls  bool
	port string // empty: it is a socket
}{
	"redis":           {single, false, "6379"},
	"rediss":          {single, true, "6379"},
	"valkey":          {single, false, "6379"},
	"valkeys":         {single, true, "6379"},
	"unix":            {single, false, ""},
	"redis+sentinel":  {sentinel, false, "26379"},
	"rediss+sentinel": {sentinel, true, "26379"},
	"redis+cluster":   {cluster, false, "6379"},
	"rediss+cluster":  {cluster, true, "6379"},
}

// literal escapes the characters of a query that stand for themselves in a URL, but mean a space
// and nothing at all in a form: passwords have them.
var literal = strings.NewReplacer("+", "%2B", ";", "%3B")

// Parse parses a URL. Its errors never contain any part of the input that could be a
// password, even if the URL is malformed because of its password.
func Parse(raw string) (*Target, error) {
	if path, ok := strings.CutPrefix(raw, "unix:/"); ok && !strings.HasPrefix(path, "/") {
		raw = "unix:///" + path // as other clients write it
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	form, known := schemes[strings.ToLower(scheme)]
	if !ok || !known {
		return nil, errScheme
	}
	end := strings.IndexAny(rest+"/", "/?#")
	authority, path := rest[:end], rest[end:]
	// The host is after the last @. Another @ after that means that a / ? or # in the
	// password has ended the authority early.
	if strings.ContainsAny(path, "@#") {
		return nil, errForm
	}
	path, query, _ := strings.Cut(path, "?")
	path, err1 := url.PathUnescape(path)
	options, err2 := url.ParseQuery(literal.Replace(query))
	if err1 != nil || err2 != nil {
		return nil, errForm
	}
	t := &Target{kind: form.kind}
	at := strings.LastIndex(authority, "@")
	if at >= 0 {
		if err := t.userinfo(authority[:at]); err != nil {
			return nil, err
		}
	}
	hosts := authority[at+1:]
	switch {
	case form.port != "":
		if err := cmp.Or(t.hosts(hosts, form.port), t.path(path)); err != nil {
			return nil, err
		}
	case hosts != "":
		return nil, errors.New("a unix URL has no host: write unix:///path/to/socket")
	case path == "" || path == "/":
		return nil, errors.New("it has no path: write unix:///path/to/socket")
	default:
		t.opts.Addrs = []string{path}
	}
	if form.tls {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if form.kind == single {
			t.tls.ServerName, _, _ = net.SplitHostPort(t.opts.Addrs[0])
		}
	}
	return t, t.options(options)
}

func (t *Target) userinfo(s string) error {
	user, password, hasPassword := strings.Cut(s, ":")
	var err1, err2 error
	t.opts.Username, err1 = url.PathUnescape(user)
	t.opts.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil || strings.ContainsAny(s, " []") {
		return errForm
	}
	if !hasPassword {
		// redis://secret@host is a common slip. A user without a password
		// cannot log in, so this is never what was meant.
		return errors.New("it has a user but no password; write :password@ if the password was meant")
	}
	return nil
}

func (t *Target) hosts(s, defaultPort string) error {
	for h := range strings.SplitSeq(s, ",") {
		addr, err := hostPort(h, defaultPort)
		if err != nil {
			return err
		}
		t.opts.Addrs = append(t.opts.Addrs, addr)
	}
	if t.kind == single && len(t.opts.Addrs) > 1 {
		return errors.New("it names several hosts; that needs redis+sentinel:// or redis+cluster://")
	}
	return nil
}

func hostPort(s, defaultPort string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port, err = net.SplitHostPort(s + ":" + defaultPort)
	}
	if err != nil || strings.ContainsAny(host, "%[] \t\\") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", errForm
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("its port is not a number from 1 to 65535; " +
			"if the password has a : or another special character, percent-encode it")
	}
	return net.JoinHostPort(cmp.Or(host, "localhost"), port), nil
}

// path parses the part after the hosts: the master and the database.
func (t *Target) path(s string) error {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	if t.kind == sentinel {
		if len(parts) == 0 {
			return errors.New("a sentinel URL needs the master's name: redis+sentinel://host:port/master")
		}
		t.opts.MasterName, parts = parts[0], parts[1:]
	}
	if len(parts) > 1 || t.kind == cluster && len(parts) > 0 && parts[0] != "0" {
		return errors.New("its path has more than it can use; a Redis Cluster has database 0 only")
	}
	if len(parts) == 0 {
		return nil
	}
	return t.database(parts[0])
}

func (t *Target) database(s string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return errors.New("its database is not a number")
	}
	t.opts.DB = int(n)
	return nil
}

// tuning are options of other clients that change nothing for berth: redis-py, ioredis, go-redis,
// redis-rb and Lettuce tune with them what berth does itself, or the form of replies.
var tuning = strings.Fields(`timeout socket_timeout socket_connect_timeout connect_timeout connectTimeout
	commandTimeout dial_timeout read_timeout write_timeout pool_timeout pool_size pool_fifo max_connections
	min_idle_conns max_idle_conns max_active_conns idle_timeout conn_max_idle_time conn_max_lifetime
	max_retries min_retry_backoff max_retry_backoff dialer_retries maxRetriesPerRequest retry_on_timeout
	reconnect_attempts health_check_interval socket_keepalive keepAlive noDelay lazyConnect
	enableReadyCheck enableOfflineQueue decode_responses encoding encoding_errors family
	context_timeout_enabled single_connection_client identity_suffix disable_identity`)

// renamed are the options of redis-py that have another name here.
var renamed = map[string]string{"ssl_ca_certs": "ca_file", "ssl_certfile": "cert_file", "ssl_keyfile": "key_file"}

func (t *Target) options(given url.Values) error {
	options := url.Values{}
	for name, values := range given {
		options[cmp.Or(renamed[name], name)] = values
	}
	for name := range options {
		if err := t.option(name, options.Get(name)); err != nil {
			return err
		}
	}
	return t.secure(options)
}

func (t *Target) option(name, value string) error {
	secure := t.tls != nil
	switch {
	case name == "db" && t.kind != cluster:
		return t.database(value)
	case name == "client_name":
		t.opts.ClientName = value
	case name == "protocol":
		return t.protocol(value)
	case name == "skip_verify" && secure:
		skip, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("its skip_verify is neither true nor false")
		}
		t.tls.InsecureSkipVerify = skip
	case name == "ssl_cert_reqs" && secure:
		return t.verify(value)
	case name == "ssl_check_hostname" && secure:
		if check, err := strconv.ParseBool(value); err != nil || !check {
			return errors.New("berth always checks the certificate's name: instead of ssl_check_hostname, write the name that it has with server_name")
		}
	case slices.Contains([]string{"ca_file", "cert_file", "key_file", "server_name"}, name) && secure: // see secure
	case name == "sentinel_username" && t.kind == sentinel:
		t.opts.SentinelUsername = value
	case name == "sentinel_password" && t.kind == sentinel:
		t.opts.SentinelPassword = value
	case slices.Contains(tuning, name), strings.HasPrefix(name, "ssl_") && !secure:
	default:
		// The option may be the end of a password with a question mark.
		known := map[kind]string{
			single: "db, client_name, protocol, and", cluster: "client_name, protocol, and",
			sentinel: "db, client_name, protocol, sentinel_username, sentinel_password, and",
		}[t.kind]
		return fmt.Errorf("it has an option that berth does not know here; known are %s "+
			"with TLS (rediss…://) ca_file, cert_file, key_file, server_name and skip_verify", known)
	}
	return nil
}

func (t *Target) protocol(value string) error {
	if value != "2" && value != "3" {
		return errors.New("its protocol is neither 2 nor 3")
	}
	t.opts.Protocol = int(value[0] - '0')
	return nil
}

// verify reads redis-py's ssl_cert_reqs. A server always has a certificate, so optional is required.
func (t *Target) verify(value string) error {
	switch strings.TrimPrefix(strings.ToLower(value), "cert_") {
	case "none":
		t.tls.InsecureSkipVerify = true
	case "optional", "required":
	default:
		return errors.New("its ssl_cert_reqs is neither none, optional nor required")
	}
	return nil
}
