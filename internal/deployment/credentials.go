package deployment

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"strings"

	"github.com/redis/rueidis"
)

// A password in a file is read again for each connection, so that one which has
// been changed there is used by the next. rueidis asks for the credentials of
// Sentinels by the same function, and tells it the address of the connection
// only: so dialServer marks that.

// credentials are the users, and the files with their passwords; "" for a
// password that is in the options.
type credentials struct {
	option                     rueidis.ClientOption
	file, sentinelFile         string
	variable, sentinelVariable string // that name the files
}

// byFile has the client ask for the credentials, if there is a file to read.
func (c credentials) byFile(option *rueidis.ClientOption) {
	if c.file == "" && c.sentinelFile == "" {
		return
	}
	c.option = *option
	option.AuthCredentialsFn = c.of
	if option.Sentinel.MasterSet != "" {
		option.DialCtxFn, option.Sentinel.Dialer.Resolver = dialServer, forSentinels
	}
}

// of is rueidis' AuthCredentialsFn.
func (c credentials) of(about rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	user, password, variable, path := c.option.Username, c.option.Password, c.variable, c.file
	if _, ok := about.Address.(sentinelAddr); ok {
		s := c.option.Sentinel
		user, password, variable, path = s.Username, s.Password, c.sentinelVariable, c.sentinelFile
	}
	if path != "" {
		var err error
		if password, _, err = passwordIn(path); err != nil {
			return rueidis.AuthCredentials{}, wrong(variable + ": " + err.Error())
		}
	}
	return rueidis.AuthCredentials{Username: user, Password: password}, nil
}

// Login returns a function that says how to log in by now, for a client of
// another kind; nil if the options say it once and for all. A function of the
// user's own hears of no address.
func Login(
	option rueidis.ClientOption,
) func(context.Context) (user, password string, err error) {
	if option.AuthCredentialsFn == nil {
		return nil
	}
	return func(context.Context) (user, password string, err error) {
		c, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: &net.TCPAddr{}})
		return c.Username, c.Password, err
	}
}

// forSentinels resolves names as any does, and marks the dialer of Sentinels.
var forSentinels = new(net.Resolver)

// sentinelAddr is the address of a Sentinel.
type sentinelAddr struct{ net.Addr }

type sentinelConn struct{ net.Conn }

func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// dialServer dials as rueidis does, and sockets of the file system, too, which
// begin with a slash.
func dialServer(
	ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config,
) (conn net.Conn, err error) {
	switch {
	case IsSocket(addr):
		conn, err = dialer.DialContext(ctx, "unix", addr)
	case config != nil:
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	default:
		conn, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err == nil && dialer.Resolver == forSentinels {
		conn = sentinelConn{conn}
	}
	return conn, err
}

// IsSocket reports whether an address is that of a socket in the file system.
func IsSocket(addr string) bool { return strings.HasPrefix(addr, "/") }

// DialsPlainly reports whether the options lead to the servers by no function
// of the user's own.
func DialsPlainly(option rueidis.ClientOption) bool {
	return option.DialFn == nil && (option.DialCtxFn == nil ||
		reflect.ValueOf(option.DialCtxFn).Pointer() == reflect.ValueOf(dialServer).Pointer())
}
