package deployment

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// dialError is a connection that could not be made.
type dialError struct {
	text  string
	below []error // none that shows what a server has said
}

func (e *dialError) Error() string   { return e.text }
func (e *dialError) Unwrap() []error { return e.below }

// maxShown bounds what is shown of a server's answer, in bytes.
const maxShown = 400

// refused is the error of a connection that could not be made. A server that
// has answered with an error of its own, such as WRONGPASS, will do so again,
// unless it passes. What it says is shown as one line without our passwords: it
// may repeat what it was sent.
func refused(option rueidis.ClientOption, secrets *Secrets, err error) error {
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if ok && !passes(answer.Error()) {
		said := Cut(secrets.Printable(answer.Error()), maxShown)
		return &dialError{
			text: fmt.Sprintf("%v: %s: the server at %s says: %s", renewer.ErrConfig,
				culprit(option, answer.Error()), hosts(option), said),
			below: []error{renewer.ErrConfig},
		}
	}
	below := []error{renewer.ErrUnavailable}
	if !ok {
		below = append(below, err)
	}
	return &dialError{
		text: fmt.Sprintf("%v: no connection to %s: %s%s", renewer.ErrUnavailable, hosts(option),
			Cut(secrets.Printable(err.Error()), maxShown), advice(option, err)),
		below: below,
	}
}

// Cut is at most so many bytes of a text, with a sign if it had more.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// passes reports whether a server's answer is about what passes by itself.
func passes(answer string) bool {
	code, _, _ := strings.Cut(answer, " ")
	switch code {
	case "LOADING", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MASTERDOWN":
		return true
	default:
		return strings.HasPrefix(answer, "max number of clients reached") // rueidis drops ERR
	}
}

func hosts(option rueidis.ClientOption) string { return strings.Join(option.InitAddress, ",") }

// culprit is what a server's answer is about. With Sentinels it may be theirs
// or the primary's.
func culprit(option rueidis.ClientOption, answer string) string {
	const url = "the URL (" + URLVariable + ")"
	sentinels := option.Sentinel.MasterSet != ""
	missing := strings.HasPrefix(answer, "NOAUTH")
	if !missing && !strings.HasPrefix(answer, "WRONGPASS") {
		if sentinels {
			return url + ", whose hosts must be Sentinels, or " + masterVariable
		}
		return url
	}
	where := url + " or " + passwordVariable
	if sentinels {
		where += "; of Sentinels " + sentinelUserVariable + " or " + sentinelPasswordVariable
	}
	if missing {
		return "a password is missing in " + where
	}
	return "the user or the password is wrong in " + where
}

// advice is what may help where the server has not answered; "" if there is
// none.
func advice(option rueidis.ClientOption, err error) string {
	secure := option.TLSConfig != nil
	_, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, isName := errors.AsType[x509.HostnameError](err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isAuthority:
		return "; set " + authorityVariable + " to a file with the certificates to trust"
	case isName:
		return "; set " + serverNameVariable + " to a name in the certificate"
	case secure && (isPlain || errors.Is(err, context.DeadlineExceeded)):
		return "; if the server speaks no TLS, begin the URL with redis://"
	case !secure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return "; if the server wants TLS, begin the URL with rediss://; if it is a proxy that " +
			"does not know HELLO, such as twemproxy, lead around it: locks need scripts and " +
			"messages"
	case len(option.InitAddress) == 1 && "redis://"+option.InitAddress[0] == defaultURL:
		return "; if Redis is not at this default, set " + URLVariable
	}
	return ""
}
