package child

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// Account is a user of the system; nil is the test's own.
type Account struct{ uid, gid int }

// Unprivileged is whom a server runs as that does not run as root: the first of
// these users that there is, if we are root.
func Unprivileged(names ...string) (*Account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // no other user is needed
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err0 := strconv.Atoi(u.Uid)
		gid, err1 := strconv.Atoi(u.Gid)
		return &Account{uid, gid}, errors.Join(err0, err1)
	}
	return nil, fmt.Errorf("we are root, and there is no user %s to run the server",
		strings.Join(names, " or "))
}

// Own gives a file or a folder to the user.
func (a *Account) Own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}
