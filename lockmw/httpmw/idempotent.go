package httpmw

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// Headers of an idempotent request and its answer.
const (
	// IdempotencyKeyHeader names a request, so that it can be sent again:
	// 1 to 255 visible ASCII characters, quoted as a structured field's
	// string or not. Source: draft-ietf-httpapi-idempotency-key-header.
	IdempotencyKeyHeader = "Idempotency-Key"
	// ReplayedHeader is "true" on an answer that was given before.
	ReplayedHeader = "Idempotent-Replayed"
)

// Idempotent returns middleware that has a request carried out once, however often the client sends
// it: requests of one caller with the same [IdempotencyKeyHeader] get the answer of the first, on
// any server, for as long as [KeepAnswer] says. It stands on package once, so the keeper's store
// must be a renewer.Recorder, as redisstore is. See the package's text for the outcomes.
//
// caller tells who sends a request, such as the authenticated user, or the tenant: two callers
// may use the same key. The name is hashed before it leaves the process. A caller that is empty
// is refused like a bad key. Where services share a Redis, give each its [Scope].
//
// A stored answer goes out without the handler, and so without what the handler checks: put
// authorization further out, or give it to [BeforeReplay].
//
// The request's body is read first, up to [MaxBody] and at the pace of [BodyTimeout]. The answer
// is kept in memory until it is stored, up to [MaxAnswer], so the handler's writer is no
// http.Flusher or http.Hijacker; http.ResponseController sets the connection's deadlines. The
// handler's context ends when the lock is lost, or [FinishWithin] after the client has gone. It
// panics if k, caller or the handler is nil, or if an option can't be meant.
func Idempotent(
	k *renewer.Keeper, caller KeyFunc, opts ...IdempotentOption,
) func(http.Handler) http.Handler {
	if k == nil || caller == nil {
		panic("lockbeat: httpmw.Idempotent needs a keeper (renewer.New) and a function that " +
			"tells who sends a request")
	}
	set := newSettings()
	set.busyStatus = http.StatusConflict
	for _, o := range opts {
		o.idempotent(&set)
	}
	if err := set.check(k); err != nil {
		panic(err.Error())
	}
	stored := quota.NewBudget(set.maxStored, set.keepAnswer)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("lockbeat: httpmw.Idempotent needs a handler")
		}
		i := &idempotent{server: server{settings: set, keeper: k}, caller: caller, stored: stored}
		i.gate = i.newGate()
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i.serve(w, r, next)
		})
	}
}

// errUnanswered means that a handler has returned without a word after its context had ended.
var errUnanswered = errors.New("lockbeat: the handler has not answered")

// idempotent carries requests out once.
type idempotent struct {
	server

	caller KeyFunc
	stored *quota.Budget
	gate   *gate

	unreadable sync.Once
}

// job is a request that is to be carried out once.
type job struct {
	caller string // hashed
	name   string // of the lock and the record
	input  string // what makes it this request and no other
	body   []byte
	size   int // of the answer, as it is stored
}

// check finds out, without asking the store, whether package once
// would take the options, and whether the store keeps records.
func (s *settings) check(k *renewer.Keeper) error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, options := once.Do(over, k, "", func(context.Context) (int, error) {
		return 0, nil
	}, s.once("", new(job))...)
	_, records := k.Read(over, "any")
	for _, err := range []error{options, records} {
		if errors.Is(err, renewer.ErrConfig) {
			return err
		}
	}
	return nil
}

func (i *idempotent) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, err := idempotencyKey(r.Header)
	if errors.Is(err, errNoKey) && i.keyOptional {
		next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		i.refuse(w, r, err)
		return
	}
	caller, err := i.caller(r)
	if err == nil && caller == "" {
		err = errors.New("nobody knows who sends it")
	}
	if err != nil {
		i.refuse(w, r, keyFault(r, err))
		return
	}
	original := r.Body
	body, err := i.read(w, r)
	defer func() { r.Body = original }() // net/http goes by the type of its own
	if err != nil {
		i.refuse(w, r, err)
		return
	}
	i.answer(w, r, next, &job{
		caller: hash(caller), name: lockmw.Key("idempotency", hash(i.scope, caller, key)),
		input: fingerprint(r, body), body: body,
	})
}

// fingerprint is what makes a request this one and no other. It goes by what the client has asked
// for: the path in r.URL may have lost what makes the difference, to http.StripPrefix for one. The
// host is in it, and not in the name, so that a request that is sent again by another host name is
// refused rather than carried out twice.
func fingerprint(r *http.Request, body []byte) string {
	uri := r.RequestURI
	if uri == "" { // of a request that came from no server
		uri = r.URL.RequestURI()
	}
	return hash(r.Method, strings.ToLower(r.Host), uri, r.Header.Get("Content-Type"), string(body))
}

// read reads the body, and puts it back.
func (i *idempotent) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := readBody(w, r, i.maxBody, i.bodyTimeout)
	if err == nil {
		r.Body = keep(body, r.Body)
	}
	return body, err
}

// refuse tells of a stored answer that can't be read, which may be a key that is missing, or
// another's doing.
func (i *idempotent) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, once.ErrRecord) {
		i.tell(&i.unreadable, err)
	}
	i.server.refuse(w, r, err)
}

// answer answers a request, by its handler or with what is stored.
func (i *idempotent) answer(w http.ResponseWriter, r *http.Request, next http.Handler, j *job) {
	var fresh *recorder // of the handler's run, if it ran here
	var unwind func()   // goes on with its panic
	i.checkTimeout(r, i.answerWait)
	run := outlive(r)
	defer run.end()
	used := func(int) {} // counts what the answer takes in the store
	taken := 0
	defer func() { used(taken) }()
	kept, err := once.Do(run.ctx, i.keeper, j.name, func(ctx context.Context) (answer, error) {
		if fresh == nil {
			var err error
			if used, err = i.reserve(j.caller); err != nil {
				return answer{}, err
			}
			if !run.begin(i.finishWithin) {
				return answer{}, ended(r)
			}
			fresh = newRecorder(w, i.maxAnswer)
			unwind = i.carryOut(ctx, fresh, r, next)
		}
		// A second call means that the lock was lost, and that the request which took over has
		// failed. The handler is not run twice: it has had its effect, and has read the body. Its
		// answer is still the only one.
		if fresh.status == 0 && ctx.Err() != nil {
			return answer{}, fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
		}
		a := fresh.answer()
		if !fresh.final(i.keepStatus) {
			return a, errNotFinal
		}
		return a, nil
	}, i.once(r.Pattern, j)...)
	if fresh != nil && (err == nil || errors.Is(err, once.ErrResult)) {
		taken = storedBytes + j.size
	}
	if unwind != nil {
		unwind()
	}
	switch {
	case fresh != nil && fresh.large: // it has gone out, whatever has become of the lock meanwhile
		fresh.send()
	case err == nil && fresh == nil:
		i.instead(w, r, j, func(w http.ResponseWriter, _ *http.Request) { kept.replay(w) })
	case fresh == nil && r.Context().Err() != nil:
		i.refuse(w, r, ended(r))
	case err == nil, errors.Is(err, errNotFinal), errors.Is(err, once.ErrNotRecorded),
		fresh != nil && errors.Is(err, once.ErrResult):
		// What the handler has answered stands, also if it could not be stored. After a loss it may
		// have been somebody else who was first; then the stored answer is the one that counts.
		if err == nil && fresh.overtaken(kept) {
			i.instead(w, r, j, func(w http.ResponseWriter, _ *http.Request) { kept.replay(w) })
			return
		}
		fresh.send()
	case fresh != nil && errors.Is(err, renewer.ErrHeld):
		// its own attempt failed, and another is at it
		i.refuse(w, r, fmt.Errorf("%w: %w", renewer.ErrLost, err))
	case fresh != nil:
		i.refuse(w, r, err)
	default:
		i.instead(w, r, j, func(w http.ResponseWriter, r *http.Request) { i.refuse(w, r, err) })
	}
}

// carryOut runs the handler. A panic passes through, except when a final answer that is too large
// to be stored has gone out: a client that leaves while it reads has some handlers panic, such as
// httputil.ReverseProxy, and must not have the request carried out again by that. What is
// returned then goes on with it.
func (i *idempotent) carryOut(
	ctx context.Context, fresh *recorder, r *http.Request, next http.Handler,
) (unwind func()) {
	over := false
	defer func() {
		if !over && fresh.large && fresh.final(i.keepStatus) {
			if value := recover(); value != nil {
				unwind = func() { panic(value) }
			}
		}
	}()
	pass(recorded(ctx), fresh, r, next.ServeHTTP)
	over = true
	return nil
}

// instead gives an answer in place of the handler's.
func (i *idempotent) instead(
	w http.ResponseWriter, r *http.Request, j *job, answer http.HandlerFunc,
) {
	r.Body = keep(j.body, r.Body) // the handler may have read it
	i.gate.let(w, r, answer)
}

// once is what to tell package once: attempts that came to nothing
// are the client's to repeat, as often as it likes.
func (s *settings) once(route string, j *job) []once.Option {
	return []once.Option{
		once.NoRetry(), once.Uncounted(), once.Wait(s.answerWait), once.MaxWaiters(s.waiters),
		once.Keep(s.keepAnswer),
		once.MaxResult(s.maxAnswer), once.Operation(s.operationOr(route)), once.Input(j.input),
		s.answers(j),
	}
}

// answers is how answers are stored.
func (s *settings) answers(j *job) once.Option {
	return once.Codec(func(v any) ([]byte, error) {
		//nolint:forcetypeassert // once gives what Do returns
		data, err := encodeAnswer(v.(answer), s.maxAnswer)
		if err != nil {
			return nil, err
		}
		data = s.seal.seal(data, j)
		if len(data) <= s.maxAnswer { // or it is not stored
			j.size = len(data)
		}
		return data, nil
	}, func(stored []byte, v any) error {
		data, err := s.seal.open(stored, j)
		if err != nil {
			return err
		}
		//nolint:forcetypeassert // once gives a pointer to what Do returns
		return decodeAnswer(data, v.(*answer))
	})
}

// hash makes one text of several, whatever is in them.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(p), p) // a hash does not fail
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
