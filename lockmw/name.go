package lockmw

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// Name is what a lock is taken on: a string, or a [Set] of names and limits.
// Every key function returns one, and every parameter called name takes one;
// the compiler finds out which.
//
// The lock's name is what the key function returns, in every adapter alike: a
// job, a request and a call for customer:7 exclude each other. Make it with
// [Key].
type Name interface{ ~string | Set }

// Set is locks and limits that are taken together, all or none: what [All],
// [Limit], [LimitFunc], [Ranked] and [Invalid] return. It is checked where it
// is made; a fault in it refuses the call that is given it. The zero value
// names nothing, and is refused with [renewer.ErrName].
type Set names.Set

// All is several names at once, at most 64, for an operation that needs all of
// them: a transfer between two accounts, a slot of two limits. A name may come
// twice, a limit may not. Strings and sets are joined by [Set.And].
//
// They are taken all or none, never in a circle. What is busy is waited for in
// one order, limits last and the narrowest first; a caller that waits keeps the
// others for an eighth of [Wait], a quarter of a second at most, and then waits
// for the busy one alone.
func All[N Name](all ...N) Set {
	if len(all) == 1 {
		return setOf(all[0])
	}
	sets := make([]names.Set, len(all))
	for i, name := range all {
		sets[i] = names.Set(setOf(name))
	}
	return Set(names.Join(sets))
}

// And is s and the others together: All("account:7").And(Limit("upstream",
// 20)).
func (s Set) And(others ...Set) Set {
	sets := make([]names.Set, 1, 1+len(others))
	sets[0] = names.Set(s)
	for _, o := range others {
		sets = append(sets, names.Set(o))
	}
	return Set(names.Join(sets))
}

// Limit is a name that n calls may have at once, over all processes. Each has a
// slot, with a heartbeat, a loss and a fencing token of its own, so that none
// lapses while its call runs. n is this process's number and is kept nowhere: a
// lower one ends no call, and 0 closes the limit ([renewer.ErrLimitClosed], at
// once). Below 0 the call is refused with [renewer.ErrConfig]. A limit and a
// lock of one name are two things.
func Limit[S ~string](name S, n int) Set {
	if err := names.CheckLimit(string(name), n); err != nil {
		return Set(names.Invalid(err))
	}
	return LimitFunc(name, func() int { return n })
}

// LimitFunc is [Limit] with a number that may change: n is asked for before
// each question to the store, so that a call that waits goes by the latest. It
// must return at once, and may be called concurrently.
func LimitFunc[S ~string](name S, n func() int) Set {
	if n == nil {
		return Set(names.Invalid(fmt.Errorf("%w: LimitFunc needs a function that returns how many "+
			"may run at once", renewer.ErrConfig)))
	}
	return Set(names.Of(names.Want{Name: string(name), Limit: n}))
}

// Ranked is the name of a lock with a rank, 1 or more, that says how new the
// work is: the version of what it works on, an ID that rises, when it was
// ordered. A call of a lower rank than one that has had the lock in the last 24
// h is refused with [renewer.ErrReplaced], whenever it comes; one of the same
// rank is the same work again, and runs. By [Replace] and [Latest] the greater
// rank is the newer call. It can't be one of several names, nor lead.
//
// Give all calls of a name ranks of one kind. A rank counts from when its call
// has the lock, though that fails, and takes some 200 bytes of the store for 24
// h. Package quorum refuses it.
func Ranked[S ~string](name S, rank int64) Set {
	if rank < 1 {
		return Invalid(fmt.Errorf("its rank is %d; give 1 or more", rank))
	}
	return Set(names.Of(names.Want{Name: string(name), Rank: rank}))
}

// Invalid is the name of what does not say what to lock; err is why. The call
// is refused with err and [renewer.ErrName]: HTTP 400, or as an *httpmw.Error
// in err says; gRPC InvalidArgument, or a status in err; a job fails for good.
func Invalid(err error) Set {
	if err == nil {
		err = names.ErrNoReason
	}
	return Set(names.Invalid(fmt.Errorf("%w: %w", renewer.ErrName, err)))
}

func setOf[N Name](name N) Set {
	switch v := any(name).(type) {
	case Set:
		return v
	case string:
		return Set(names.Of(names.Want{Name: v}))
	default: // a named string type
		return Set(names.Of(names.Want{Name: reflect.ValueOf(v).String()}))
	}
}

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Key joins a static kind and the parts of a key with colons, so that different
// parts never make the same key: Key("order", "a:b") is "order:a%3Ab". An empty
// part, or kind, makes an empty name, which is refused with [renewer.ErrName],
// since it mostly means that a field was not filled in.
func Key(kind string, parts ...string) string {
	var b strings.Builder
	b.WriteString(kind)
	for _, part := range parts {
		if part == "" || kind == "" {
			return ""
		}
		b.WriteByte(':')
		keyEscaper.WriteString(&b, part) //nolint:errcheck // a Builder does not fail
	}
	return b.String()
}
