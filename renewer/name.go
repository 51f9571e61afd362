package renewer

import (
	"errors"
	"fmt"
	"strings"
)

// reservedPrefix begins the names under which stores keep notes of their own, such as the
// membership of a quorum. No caller can lock one: a name is often chosen by a remote client. A
// store gives them to its nodes directly.
const reservedPrefix = "\x00lockbeat"

// CheckName returns an error that is [ErrName] and says what to do, if name can't be a lock's: it
// is empty, longer than [MaxName], or begins with "\x00lockbeat", as names do that stores use for
// themselves. Any other bytes will do; a name from a request can choose no other lock's key,
// since stores escape what theirs can't carry.
func CheckName(name string) error {
	if fault := nameFault(name); fault != nil {
		return fmt.Errorf("%w: %w", ErrName, fault)
	}
	return nil
}

func nameFault(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty, or made of an empty part; name what the lock protects, " +
			"such as \"order:42\"")
	case len(name) > MaxName:
		return fmt.Errorf("it has %d bytes, above the limit of %d; hash what makes it long",
			len(name), MaxName)
	case strings.HasPrefix(name, reservedPrefix):
		return fmt.Errorf("it begins with %q, which stores keep for themselves; begin names with "+
			"a prefix of your own, such as \"order:\"",
			reservedPrefix)
	default:
		return nil
	}
}
