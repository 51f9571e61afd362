package redisstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
)

// maxErrorText bounds what is shown of a server's error, in bytes.
const maxErrorText = 400

// serverError is an error that the server answered with.
type serverError struct {
	op   string // "acquire", "renew", …
	text string // the answer, as printable makes it
	hint string // what to do about it, or ""
	mark error  // what it is to the engine, or nil
	err  error  // the answer as it came; nil if it shows what it must not
}

func (e *serverError) Error() string { return e.describe(e.text) }

// tagged is what braces enclose in a key of ours: the lock's name. An error may end within it.
var tagged = regexp.MustCompile(`\{[^}]*(\}|$)`)

// Nameless is Error without the names of locks, which errors of our scripts have in the keys that
// they are about: see [renewer.ErrorText]. It is cut behind that, lest the closing brace be gone.
func (e *serverError) Nameless() string {
	return e.describe(tagged.ReplaceAllString(e.text, "{…}"))
}

func (e *serverError) describe(text string) string {
	s := "redisstore: " + e.op + ": " + deployment.Cut(text, maxErrorText)
	if e.hint != "" {
		s += " (" + e.hint + ")"
	}
	return s
}

func (e *serverError) Unwrap() []error {
	var below []error
	if e.mark != nil {
		below = append(below, e.mark)
	}
	if e.err != nil {
		below = append(below, e.err)
	}
	return below
}

// errorReader says what the errors of one deployment mean, and what to do about them.
type errorReader struct {
	prefix    string
	cluster   bool
	replicas  int
	toInspect bool
	closed    atomic.Bool // whether the client was closed when it last refused a request
	astray    func()      // is called when the server is a replica

	secrets *deployment.Secrets // of the client, if Open has made it
}

// wrap says which operation failed with what. A server's answer that it will
// give again until an operator changes something, and that of a client that was
// closed, is marked [renewer.ErrRejected]; whatever else went wrong may pass.
func (e *errorReader) wrap(op string, err error) error {
	var answer *rueidis.RedisError
	if errors.Is(err, rueidis.ErrClosing) && e.closed.Load() {
		return fmt.Errorf("redisstore: %s: %w: the client has been closed; close it after "+
			"Keeper.Shutdown and Store.Close: %w",
			op, renewer.ErrRejected, err)
	}
	if !errors.As(err, &answer) || answer.IsNil() {
		return fmt.Errorf("redisstore: %s: %w", op, err)
	}
	text := e.secrets.Printable(answer.Error())
	kind := e.classify(text)
	if kind.isReplica() {
		e.astray()
	}
	if e.secrets.In(answer.Error()) {
		err = nil // or a log of the chain of errors would show it
	}
	hint := e.hint(kind)
	if kind == noRights && (op == opArrive || op == opNext) {
		hint = "tasks that stand in line need further rights: " + taskRights
	}
	if kind == noRights && op == opSlot {
		hint = "limits need further rights: " + limitRights
	}
	if kind == noRights && op == opBreak {
		hint = "to break a lease needs " + breakRights + "; of a limit also " + breakLimitRights
	}
	if kind == noRights && (op == opList || op == opShow) {
		hint = "to look at locks needs " + lookRights
	}
	if kind == noRights && e.toInspect && op != "new" && op != opList && op != opShow &&
		op != opBreak {
		hint = "the store was made with ToInspect, and takes no locks"
	}
	mark := kind.mark()
	if kind == noLogin && op == "new" {
		mark = renewer.ErrRejected // it is not changing, but wrong
	}
	return &serverError{op: op, text: text, hint: hint, mark: mark, err: err}
}

// tryWrite sends a write that changes nothing and returns an error if a replica has refused it.
// Other errors are not its matter.
func (e *errorReader) tryWrite(ctx context.Context, conn rueidis.DedicatedClient) error {
	err := conn.Do(ctx, conn.B().Del().Key(schema.NoKey(e.prefix)).Build()).Error()
	if answer, ok := rueidis.IsRedisErr(err); ok && e.classify(answer.Error()).isReplica() {
		return e.wrap("watch", err)
	}
	return nil
}

// unreadable is a reply of a shape that the script never gives: something
// between us and the server is broken. Nothing is believed of it.
func unreadable(op string) error {
	return fmt.Errorf("redisstore: %s: unreadable reply; is there a proxy before the server that "+
		"changes replies?", op)
}

// refusal is what kind of error the server answered with.
type refusal uint8

const (
	passing   refusal = iota // may pass by itself: loading, fail-over …
	moving                   // the lock's slot is between two nodes of a cluster: passes by itself
	orphan                   // a replica that has lost its primary
	full                     // out of memory or disk, or busy with a script: may pass, and it is up
	readOnly                 // a replica, which a fail-over may promote
	noRights                 // the user may not
	noLogin                  // the user is not known
	wrongType                // another program's key
	noCommand                // the server can't, or may not
	clustered                // the client does not know that there is a cluster
	damaged                  // our scripts' own errors, which say what to do
)

// isReplica reports whether a replica alone answers so.
func (r refusal) isReplica() bool { return r == readOnly || r == orphan }

// mark is what the engine goes by: nil if the answer may pass by itself, and may be that of a
// server which is not fit to be asked.
func (r refusal) mark() error {
	switch r {
	case passing, moving, orphan, readOnly, noLogin: // a password may be changing
		return nil
	case full:
		return renewer.ErrOverloaded
	default:
		return renewer.ErrRejected // until an operator changes the server
	}
}

// Redis 6 wraps an error inside a script in another: "ERR Error
// running script (call to f_…): @user_script:3: WRONGTYPE …".
var innerCode = regexp.MustCompile(`@user_script: ?\d+: -?([A-Z]+) `)

// errorCode is the first word of the server's error, or of the one inside it.
func errorCode(text string) string {
	code, _, _ := strings.Cut(text, " ")
	if m := innerCode.FindAllStringSubmatch(text, -1); m != nil {
		code = m[len(m)-1][1]
	}
	return code
}

func (e *errorReader) classify(text string) refusal {
	switch errorCode(text) {
	case "OOM", "BUSY", "MISCONF":
		return full
	case "READONLY":
		return readOnly
	case "MASTERDOWN":
		return orphan
	case "NOPERM":
		return noRights
	case "NOAUTH", "WRONGPASS", "DENIED":
		return noLogin
	case "WRONGTYPE":
		return wrongType
	case "LOCKBEAT":
		return damaged
	case "TRYAGAIN":
		return moving
	case "MOVED", "ASK", "CROSSSLOT":
		if !e.cluster {
			return clustered
		}
	}
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("ttempted to access a non local key"): // one that the script has not declared
		return moving
	case slices.ContainsFunc([]string{"user executing the script can't", "ACL failure in script"},
		has):
		return noRights
	case slices.ContainsFunc([]string{"without any password configured", "invalid password"}, has):
		return noLogin
	case slices.ContainsFunc([]string{
		"unknown command", "Unknown Redis command",
		"unknown subcommand",
	}, has):
		return noCommand
	}
	return passing
}

// definite reports whether to refuse a server at once. A replica is one, although
// a fail-over may promote it: at start it is a wrong address by far more often.
func (e *errorReader) definite(text string) bool { return e.classify(text) > full }

// errDenied is below the error for a command refused inside the
// script: there the server's own error is only text.
var errDenied = errors.New("redisstore: the server refuses a command that locks need")

// denied names the command, which the server's error often does not.
func (e *errorReader) denied(command, text string) error {
	kind := e.classify(text)
	return &serverError{
		op: "new", text: "the server refuses " + command + ": " + text,
		hint: e.hint(kind), mark: kind.mark(), err: errDenied,
	}
}

// hint says what to do.
func (e *errorReader) hint(r refusal) string {
	switch r {
	case moving:
		return "the lock's slot of the cluster is being moved: try again in a moment"
	case full:
		return "the server is up, and full or busy: see what else uses it"
	case readOnly, orphan:
		return "the client is connected to a replica: point it at the primary; if its address " +
			"leads there by now, new connections find it"
	case noRights:
		channels := " &" + schema.Pattern(e.prefix)
		if e.toInspect {
			channels = ""
		}
		return "grant the user ~" + schema.Pattern(e.prefix) + channels + " " + e.rights() +
			"; begin its ACL SETUSER with reset resetchannels, so that it has nothing else"
	case noLogin:
		return "set Username and Password in rueidis.ClientOption to those of a user of this server"
	case wrongType:
		return "another program has written the key: delete it, or choose another redisstore.Prefix"
	case noCommand:
		return "the server must know, and not have renamed, the commands " +
			strings.ReplaceAll(e.rights(), "+", "")
	case clustered:
		return "the server is part of a cluster, which the client does not know: make it without " +
			"ForceSingleClient, and grant " +
			"its user " + slotRights
	default:
		return ""
	}
}

// The commands that a user needs; docs/redis.md and a test of it hold the same lists.
const (
	scriptRights = "+evalsha +eval +get +mget +set +del +pttl +pexpire +time"
	rights       = scriptRights + " +publish +subscribe"
	// clusterRights are those on the nodes of a cluster, by which
	// clients also find out who serves what.
	clusterRights = scriptRights + " +spublish +ssubscribe " + slotRights
	slotRights    = "+cluster|slots +cluster|shards" // the former up to Redis 7
	// lineRights let waiters stand in line.
	lineRights = "+zadd +zrem +zpopmin +zrange +zscore +exists"
	// limitRights let calls have slots of limits.
	limitRights = "+zadd +zrem +zcard +zcount +zrange +zscore +hset +hget +hdel +hexists +exists"
	// breakRights let a user break leases, besides those to look, and breakLimitRights slots.
	breakRights      = "+evalsha +eval +get +set +del +pttl +publish +zpopmin"
	breakLimitRights = "+hscan +time +zscore +hget +hset +zadd +zrem +hdel +hexists +exists " +
		"+zrange +pexpire"
	// taskRights let tasks stand in line.
	taskRights = "+zadd +zrem +zrange +zrank +zcard +zscore +hset +hdel +hgetall +exists"
	// lookRights let an operator list and show locks.
	lookRights = "+scan +getrange +pttl +time +zscan +zcard +zrange +hmget"
	// waitRight is needed with Replicas.
	waitRight = "+wait"
	// roleRight is needed by a client that finds its server through
	// Sentinels, to see that it is the primary.
	roleRight = "+role"
	// sentinelRights are those of such a client's user on the Sentinels.
	sentinelRights = "&+sentinel &+slave &-sdown &+sdown &+switch-master &+reboot " +
		"+sentinel|sentinels +sentinel|get-master-addr-by-name +subscribe +unsubscribe"
)

// rights are those that this store needs.
func (e *errorReader) rights() string {
	all := rights
	switch {
	case e.toInspect && e.cluster:
		return lookRights + " " + slotRights
	case e.toInspect:
		return lookRights
	case e.cluster:
		all = clusterRights
	}
	if e.replicas > 0 {
		all += " " + waitRight
	}
	return all
}
