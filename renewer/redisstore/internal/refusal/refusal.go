// Package refusal says what the errors of a deployment mean: to the engine, by
// what they wrap, and to an operator, by what is to be done about them. It has
// the rights that a user needs, which its advice names.
//
// It owns the words of errors alone: it sends nothing, and what is done about
// an error, beyond telling that a replica has answered, is the matter of who
// asks. No error that it makes shows a password, or control bytes, or more than
// a few hundred bytes of what a server sends.
package refusal

import (
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

// What is asked, in errors, where advice depends on it.
const (
	OpSlot   = "acquire a slot"
	OpBreak  = "break"
	OpArrive = "arrive"
	OpNext   = "next"
	OpList   = "list"
	OpShow   = "show"
)

// Error is an error that the server answered with.
type Error struct {
	Op   string // "acquire", "renew", …
	Text string // the answer, as printable makes it
	Hint string // what to do about it, or ""
	Mark error  // what it is to the engine, or nil
	Err  error  // the answer as it came; nil if it shows what it must not
}

func (e *Error) Error() string { return e.describe(e.Text) }

// tagged is what braces enclose in a key of ours: the lock's name. An error may
// end within it.
var tagged = regexp.MustCompile(`\{[^}]*(\}|$)`)

// Nameless is Error without the names of locks, which errors of our scripts
// have in the keys that they are about: see [renewer.ErrorText]. It is cut
// behind that, lest the closing brace be gone.
func (e *Error) Nameless() string {
	return e.describe(tagged.ReplaceAllString(e.Text, "{…}"))
}

func (e *Error) describe(text string) string {
	s := "redisstore: " + e.Op + ": " + deployment.Cut(text, maxErrorText)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() []error {
	var below []error
	if e.Mark != nil {
		below = append(below, e.Mark)
	}
	if e.Err != nil {
		below = append(below, e.Err)
	}
	return below
}

// Reader says what the errors of one deployment mean, and what to do about
// them.
type Reader struct {
	Prefix    string
	Cluster   bool
	Replicas  int
	ToInspect bool
	Closed    atomic.Bool // whether the client was closed when it last refused a request
	Astray    func()      // is called when the server is a replica

	Secrets *deployment.Secrets // of the client, if the store has made it
}

// Wrap says which operation failed with what. A server's answer that it will
// give again until an operator changes something, and that of a client that was
// closed, is marked [renewer.ErrRejected]; whatever else went wrong may pass.
func (e *Reader) Wrap(op string, err error) error {
	var answer *rueidis.RedisError
	if errors.Is(err, rueidis.ErrClosing) && e.Closed.Load() {
		return fmt.Errorf("redisstore: %s: %w: the client has been closed; close it after "+
			"Keeper.Shutdown and Store.Close: %w",
			op, renewer.ErrRejected, err)
	}
	if !errors.As(err, &answer) || answer.IsNil() {
		return fmt.Errorf("redisstore: %s: %w", op, err)
	}
	text := e.Secrets.Printable(answer.Error())
	kind := e.classify(text)
	if kind.isReplica() {
		e.Astray()
	}
	if e.Secrets.In(answer.Error()) {
		err = nil // or a log of the chain of errors would show it
	}
	hint := e.hint(kind)
	if kind == noRights && (op == OpArrive || op == OpNext) {
		hint = "tasks that stand in line need further rights: " + TaskRights
	}
	if kind == noRights && op == OpSlot {
		hint = "limits need further rights: " + LimitRights
	}
	if kind == noRights && op == OpBreak {
		hint = "to break a lease needs " + BreakRights + "; of a limit also " + BreakLimitRights
	}
	if kind == noRights && (op == OpList || op == OpShow) {
		hint = "to look at locks needs " + LookRights
	}
	if kind == noRights && e.ToInspect && op != "new" && op != OpList && op != OpShow &&
		op != OpBreak {
		hint = "the store was made with ToInspect, and takes no locks"
	}
	mark := kind.mark()
	if kind == noLogin && op == "new" {
		mark = renewer.ErrRejected // it is not changing, but wrong
	}
	return &Error{Op: op, Text: text, Hint: hint, Mark: mark, Err: err}
}

// Unreadable is a reply of a shape that the script never gives: something
// between us and the server is broken. Nothing is believed of it.
func Unreadable(op string) error {
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

// mark is what the engine goes by: nil if the answer may pass by itself, and
// may be that of a server which is not fit to be asked.
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

func (e *Reader) classify(text string) refusal {
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
		if !e.Cluster {
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

// Foreign reports whether the server says that a key is of another type.
func (e *Reader) Foreign(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && e.classify(answer.Error()) == wrongType
}

// Replica reports whether a replica alone answers so.
func (e *Reader) Replica(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && e.classify(answer.Error()).isReplica()
}

// NoCommand reports whether the server says that it does not know a command.
func (e *Reader) NoCommand(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && e.classify(answer.Error()) == noCommand
}

// NotReady reports whether a server's error is one of a server that is
// starting, busy, full, or in the middle of a fail-over.
func (e *Reader) NotReady(text string) bool {
	return e.classify(text) <= readOnly && slices.Contains(notReady, errorCode(text))
}

var notReady = []string{
	"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "READONLY", "MASTERDOWN",
	"CLUSTERDOWN", "TRYAGAIN",
}

// Definite reports whether to refuse a server at once. A replica is one,
// although a fail-over may promote it: at start it is a wrong address by far
// more often.
func (e *Reader) Definite(text string) bool { return e.classify(text) > full }

// ErrLater means that the server is down, slow or not ready, so that it must be
// asked again.
var ErrLater = errors.New("redisstore: the server has not answered yet")

// ErrDenied is below the error for a command refused inside the
// script: there the server's own error is only text.
var ErrDenied = errors.New("redisstore: the server refuses a command that locks need")

// Denied names the command, which the server's error often does not.
func (e *Reader) Denied(command, text string) error {
	text = e.Secrets.Printable(text)
	kind := e.classify(text)
	return &Error{
		Op: "new", Text: "the server refuses " + command + ": " + text,
		Hint: e.hint(kind), Mark: kind.mark(), Err: ErrDenied,
	}
}

// hint says what to do.
func (e *Reader) hint(r refusal) string {
	switch r {
	case moving:
		return "the lock's slot of the cluster is being moved: try again in a moment"
	case full:
		return "the server is up, and full or busy: see what else uses it"
	case readOnly, orphan:
		return "the client is connected to a replica: point it at the primary; if its address " +
			"leads there by now, new connections find it"
	case noRights:
		channels := " &" + schema.Pattern(e.Prefix)
		if e.ToInspect {
			channels = ""
		}
		return "grant the user ~" + schema.Pattern(e.Prefix) + channels + " " + e.rights() +
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

// The commands that a user needs; docs/redis.md and a test of it hold the same
// lists.
const (
	scriptRights = "+evalsha +eval +get +mget +set +del +pttl +pexpire +time"
	Rights       = scriptRights + " +publish +subscribe"
	// ClusterRights are those on the nodes of a cluster, by which
	// clients also find out who serves what.
	ClusterRights = scriptRights + " +spublish +ssubscribe " + slotRights
	slotRights    = "+cluster|slots +cluster|shards" // the former up to Redis 7
	// NativeRights let a lone claim be made without a script.
	NativeRights = "+incr +multi +exec"
	// LineRights let waiters stand in line.
	LineRights = "+zadd +zrem +zpopmin +zrange +zscore +exists"
	// LimitRights let calls have slots of limits.
	LimitRights = "+zadd +zrem +zcard +zcount +zrange +zscore +hset +hget +hdel +hexists +exists"
	// BreakRights let a user break leases, besides those to look, and
	// BreakLimitRights slots.
	BreakRights      = "+evalsha +eval +get +set +del +pttl +publish +zpopmin"
	BreakLimitRights = "+hscan +time +zscore +hget +hset +zadd +zrem +hdel +hexists +exists " +
		"+zrange +pexpire"
	// TaskRights let tasks stand in line.
	TaskRights = "+zadd +zrem +zrange +zrank +zcard +zscore +hset +hdel +hgetall +exists"
	// LookRights let an operator list and show locks.
	LookRights = "+scan +getrange +pttl +time +zscan +zcard +zrange +hmget"
	// WaitRight is needed with Replicas.
	WaitRight = "+wait"
	// RoleRight is needed by a client that finds its server through
	// Sentinels, to see that it is the primary.
	RoleRight = "+role"
	// SentinelRights are those of such a client's user on the Sentinels.
	SentinelRights = "&+sentinel &+slave &-sdown &+sdown &+switch-master &+reboot " +
		"+sentinel|sentinels +sentinel|get-master-addr-by-name +subscribe +unsubscribe"
)

// rights are those that this store needs.
func (e *Reader) rights() string {
	all := Rights
	switch {
	case e.ToInspect && e.Cluster:
		return LookRights + " " + slotRights
	case e.ToInspect:
		return LookRights
	case e.Cluster:
		all = ClusterRights
	}
	if e.Replicas > 0 {
		all += " " + WaitRight
	}
	return all
}
