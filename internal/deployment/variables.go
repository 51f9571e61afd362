package deployment

import (
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// URLVariable may have a password in it.
	URLVariable = "LOCKBEAT_URL"

	passwordVariable         = "LOCKBEAT_PASSWORD_FILE"
	clusterVariable          = "LOCKBEAT_CLUSTER"
	masterVariable           = "LOCKBEAT_SENTINEL_MASTER"
	sentinelUserVariable     = "LOCKBEAT_SENTINEL_USER"
	sentinelPasswordVariable = "LOCKBEAT_SENTINEL_PASSWORD_FILE"
	authorityVariable        = "LOCKBEAT_TLS_CA"
	certVariable             = "LOCKBEAT_TLS_CERT"
	keyVariable              = "LOCKBEAT_TLS_KEY"
	serverNameVariable       = "LOCKBEAT_TLS_SERVER_NAME"
	prefixVariable           = "LOCKBEAT_PREFIX"
)

// defaultURL is where Redis is if no variable says so.
const defaultURL = "redis://127.0.0.1:6379"

// Variable is one that a user can set.
type Variable struct{ Name, What string }

// Variables returns all variables in the order in which a user reads of them.
// docs/setup.md has them, too, in these words.
func Variables() []Variable {
	return []Variable{
		{URLVariable, "redis://user:password@host:6379/db; rediss:// for TLS; hosts with commas " +
			"between (default " + defaultURL + ")"},
		{passwordVariable, "a file with the password"},
		{clusterVariable, "true: the hosts are nodes of a cluster; false: they are none " +
			"(default: the server is asked, but not for asynq)"},
		{masterVariable, "the hosts are Sentinels, which know the primary by this name"},
		{sentinelUserVariable, "the user of the Sentinels, if they ask for one"},
		{sentinelPasswordVariable, "a file with the password of the Sentinels"},
		{authorityVariable, "a file with the certificates to trust (default: the system's)"},
		{certVariable, "a file with the client's certificate"},
		{keyVariable, "a file with its key"},
		{serverNameVariable, "the name in the server's certificate (default: the host)"},
		{prefixVariable, "what the keys begin with (default lockbeat:)"},
	}
}

// Settings are what the variables or a URL say. They have the fields of
// redisstore.Deployment, which explains them.
type Settings struct {
	Option  rueidis.ClientOption
	Cluster bool
	Prefix  string // "" for the default
	// Warnings are of what is unsafe and works all the same.
	Warnings []string
}

// FromLookup reads the variables. One that is empty counts as not set.
func FromLookup(lookup func(name string) (value string, ok bool)) (Settings, error) {
	v := newVariables()
	for _, known := range Variables() {
		v.values[known.Name], _ = lookup(known.Name)
	}
	if v.values[URLVariable] == "" {
		v.values[URLVariable] = defaultURL
	}
	return v.settings()
}

// FromURL reads a URL, and no variable.
func FromURL(url string) (Settings, error) {
	v := newVariables()
	v.values[URLVariable], v.called[URLVariable] = url, "the URL"
	return v.settings()
}

// variables are those that are set, and what is wrong with them.
type variables struct {
	values   map[string]string
	called   map[string]string // what the user knows one by, if it is not its name
	faults   []string
	warnings []string
}

func newVariables() *variables {
	return &variables{values: make(map[string]string), called: make(map[string]string)}
}

// name is what the user knows a variable by.
func (v *variables) name(variable string) string {
	if other, ok := v.called[variable]; ok {
		return other
	}
	return variable
}

// fault notes what is wrong with a variable. It must not be told a secret.
func (v *variables) fault(variable, format string, args ...any) {
	v.faults = append(v.faults, v.name(variable)+": "+fmt.Sprintf(format, args...))
}

func (v *variables) settings() (Settings, error) {
	option, cluster := v.option()
	prefix := v.values[prefixVariable]
	if prefix != "" {
		if fault := PrefixFault(prefix); fault != "" {
			v.fault(prefixVariable, "%s", fault)
		}
	}
	if len(v.faults) > 0 {
		return Settings{}, wrong(strings.Join(v.faults, "; "))
	}
	return Settings{
		Option: option, Cluster: cluster, Prefix: prefix, Warnings: v.warnings,
	}, nil
}

// wrong is the error for variables that are.
func wrong(text string) error { return fmt.Errorf("%w: %s", renewer.ErrConfig, text) }

// maxPrefix bounds a prefix, in bytes, as it is in every key.
const maxPrefix = 256

// PrefixFault says what is wrong with a prefix; "" if it is well. It does not
// show it: a variable may have a password in it by mistake.
func PrefixFault(prefix string) string {
	switch {
	case prefix == "":
		return "is empty; leave it out for the default"
	case len(prefix) > maxPrefix:
		return fmt.Sprintf("has %d bytes; take at most %d", len(prefix), maxPrefix)
	case strings.ContainsFunc(prefix, func(r rune) bool {
		return r <= 0x20 || r == 0x7f || strings.ContainsRune(`{}*?[]\`, r)
	}):
		return "has a space, a control byte or one of {}*?[]\\; leave it out, so that no rule or " +
			"hash tag takes it for a pattern"
	case !strings.HasSuffix(prefix, ":"):
		return "does not end in a colon; add one"
	}
	return ""
}
