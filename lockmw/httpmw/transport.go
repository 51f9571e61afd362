package httpmw

import (
	"context"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Transport returns an http.RoundTripper that runs each call of base under the lock
// on the name that key derives from the request. The lock is held until the
// response's body is closed, which a caller must do on every path. It is free at once
// if the call fails or the response has no body. A nil base is http.DefaultTransport.
//
// The call runs on the lock's context. When the lock is lost, the call, or reading the
// body, fails with an error that is renewer.ErrLost. A refusal is an error too, and nothing
// has been sent then: [ErrKey], renewer.ErrHeld, renewer.ErrUnavailable and the others of
// package lockmw. errors.Is finds them in the *url.Error of an http.Client, which calls its
// transport for each redirect, and so takes a lock for each, one after the other.
//
// It may be called concurrently. It panics if k or key is nil.
func Transport(
	base http.RoundTripper, k *renewer.Keeper, key KeyFunc, opts ...TransportOption,
) http.RoundTripper {
	if k == nil || key == nil {
		panic("lockbeat: httpmw.Transport needs a keeper (renewer.New) and a key function such " +
			"as httpmw.Header")
	}
	if base == nil {
		base = http.DefaultTransport
	}
	t := &transport{base: base, keeper: k, key: key, settings: newSettings()}
	t.waiters = 0 // the calls are the program's own
	for _, o := range opts {
		o.transport(&t.settings)
	}
	t.unlocked = newUnlocked(k, &t.settings)
	return t
}

// NoWait does not wait for the lock: the call fails with renewer.ErrHeld if another caller has it.
func NoWait() TransportOption {
	return transportOption(func(s *settings) { s.policy = lockmw.Refuse() })
}

// SendFence sends the lock's fencing token with the call, in the
// [FenceHeader]. The server takes it by [ReceiveFence].
func SendFence() TransportOption {
	return transportOption(func(s *settings) { s.sendFence = true })
}

type transport struct {
	settings

	base     http.RoundTripper
	keeper   *renewer.Keeper
	key      KeyFunc
	unlocked *unlocked
}

// RoundTrip makes one call under its lock.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, exit, err := t.enter(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as every RoundTripper must
		}
		return nil, err
	}
	return t.call(ctx, r, exit)
}

func (t *transport) enter(r *http.Request) (context.Context, func(error) error, error) {
	name, err := t.key(r)
	if err != nil {
		return nil, nil, httpguard.KeyFault(r, err)
	}
	ctx, exit, err := lockmw.Enter(r.Context(), t.keeper, name, t.lock("")...)
	if err == nil {
		return ctx, exit, nil
	}
	without, leave := t.unlocked.enter(r.Context(), name, t.operation, err)
	if without == nil {
		return nil, nil, err
	}
	return without, func(err error) error {
		leave()
		return err
	}, nil
}

// call makes the call. If the response has a body, that holds the lock from then on.
func (t *transport) call(
	ctx context.Context, r *http.Request, exit func(error) error,
) (res *http.Response, err error) {
	sent := r.WithContext(ctx)
	if t.sendFence {
		sent.Header = r.Header.Clone()
		InjectFence(ctx, sent.Header)
	}
	err = unwind.Then(func() (err error) {
		res, err = t.base.RoundTrip(sent) //nolint:bodyclose // it is the caller's to close
		return err
	}, func(err error) error {
		if err == nil && hasBody(res) {
			res.Body = newBody(ctx, res.Body, exit)
			return nil
		}
		return exit(err)
	})
	if err != nil {
		return nil, err
	}
	if res.Request == sent {
		res.Request = r // as the caller knows it
	}
	return res, nil
}

// hasBody reports whether a response has a body. By HTTP/2 net/http
// has another body than http.NoBody where there is none. (Other
// transports leave the length at 0 where they don't know it.)
func hasBody(res *http.Response) bool {
	if res.Body == nil || res.Body == http.NoBody {
		return false
	}
	empty := res.ContentLength == 0 || res.StatusCode == http.StatusNoContent ||
		res.Request != nil && res.Request.Method == http.MethodHead
	return res.ProtoMajor != 2 || !empty
}

// CloseIdleConnections closes the idle connections of base, for http.Client.CloseIdleConnections.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
