package connect

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Source is where variables come from. Its zero value is the environment of the process.
type Source struct {
	// File is a file with variables; "" for the one that LOCKBEAT_CONFIG names, if any.
	File string
	// Lookup finds a variable of the environment, os.LookupEnv by default.
	Lookup func(name string) (value string, ok bool)
	// Warn is told of what is unsafe and works all the same; nil: no one is.
	Warn func(text string)
}

type sourceKey struct{}

// With returns a context by which [Open] reads variables from s.
func With(ctx context.Context, s Source) context.Context {
	return context.WithValue(ctx, sourceKey{}, s)
}

// variables are those that are set, and the faults of the file that they come from.
type variables struct {
	values map[string]string
	faults []string
	warn   func(text string)
}

// readVariables reads the variables that ctx says.
func readVariables(ctx context.Context) *variables {
	s, _ := ctx.Value(sourceKey{}).(Source)
	if s.Lookup == nil {
		s.Lookup = os.LookupEnv
	}
	if s.Warn == nil {
		s.Warn = func(string) {}
	}
	v := &variables{values: make(map[string]string), warn: s.Warn}
	who := "--config"
	if s.File == "" {
		who = ConfigVariable
		s.File, _ = s.Lookup(ConfigVariable)
	}
	if s.File != "" {
		v.readFile(who, s.File)
	}
	for _, known := range Variables() {
		if value, ok := s.Lookup(known.Name); ok {
			v.values[known.Name] = value
		}
	}
	return v
}

// fault notes what is wrong with a variable. It must not be told a secret.
func (v *variables) fault(name, format string, args ...any) {
	v.faults = append(v.faults, name+": "+fmt.Sprintf(format, args...))
}

// readFile reads a configuration file.
func (v *variables) readFile(who, path string) {
	text, mode, err := readOwn(path)
	if err != nil {
		v.fault(who, "%v", err)
		return
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		// A line may have a password in it, so an error shows nothing but a known name.
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok:
			v.fault(who, "%s, line %d: has no VARIABLE=value", path, number)
		case name == ConfigVariable || !slices.ContainsFunc(Variables(), func(known Variable) bool {
			return known.Name == name
		}):
			v.fault(who, "%s, line %d: is not about a variable that `lockbeat help environment` "+
				"lists", path, number)
		default:
			v.values[name] = unquote(strings.TrimSpace(value))
		}
	}
	if readableByAll(mode) && hasPassword(v.values[urlVariable]) {
		v.fault(who, "%s: has a password in it and everybody can read it; chmod 600", path)
	}
}

// unquote takes off a pair of quotes around a value.
func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
