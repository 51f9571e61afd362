package connect

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
)

// FileVariable names the file with variables, unless --config does.
const FileVariable = "LOCKBEAT_CONFIG"

// Source is where variables come from. Its zero value is the environment of the
// process.
type Source struct {
	// File is a file with variables; "" for the one that LOCKBEAT_CONFIG names,
	// if any.
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

// read reads the variables that ctx says. The environment comes before the
// file.
func read(ctx context.Context) (deployment.Settings, error) {
	s, _ := ctx.Value(sourceKey{}).(Source)
	if s.Lookup == nil {
		if err := deployment.CheckNames(os.Environ()); err != nil {
			return deployment.Settings{}, err
		}
		s.Lookup = os.LookupEnv
	}
	who := "--config"
	if s.File == "" {
		who = FileVariable
		s.File, _ = s.Lookup(FileVariable)
	}
	var file map[string]string
	if s.File != "" {
		var faults []string
		if file, faults = readFile(s.File); len(faults) > 0 {
			return deployment.Settings{}, fmt.Errorf("%w: %s: %s", renewer.ErrConfig, who,
				strings.Join(faults, "; "))
		}
	}
	settings, err := deployment.FromLookup(func(name string) (string, bool) {
		if value, ok := s.Lookup(name); ok {
			return value, true
		}
		value, ok := file[name]
		return value, ok
	})
	if s.Warn != nil {
		for _, text := range settings.Warnings {
			s.Warn(text)
		}
	}
	return settings, err
}

// readFile reads a file with variables. A line may have a password in it, so a
// fault shows nothing of one.
func readFile(path string) (values map[string]string, faults []string) {
	text, mode, err := deployment.ReadFile(path)
	if err != nil {
		return nil, []string{err.Error()}
	}
	values = make(map[string]string)
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("%s, line %d: has no VARIABLE=value", path, number))
		case !known(name):
			faults = append(faults, fmt.Sprintf("%s, line %d: is not about a variable that "+
				"`lockbeat help environment` lists", path, number))
		default:
			values[name] = unquote(strings.TrimSpace(value))
		}
	}
	if deployment.ReadableByAll(mode) && deployment.HasPassword(values[deployment.URLVariable]) {
		faults = append(faults, path+": has a password in it and everybody can read it; chmod 600")
	}
	return values, faults
}

func known(name string) bool {
	return slices.ContainsFunc(deployment.Variables(), func(v deployment.Variable) bool {
		return v.Name == name
	})
}

// unquote takes off a pair of quotes around a value.
func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
