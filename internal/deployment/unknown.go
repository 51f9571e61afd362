package deployment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ofOthers are variables that look like ours and are for someone else: the file
// of the command and what it tells the command that it runs; those of tests;
// and those that Kubernetes sets in each pod beside a Service whose name begins
// with lockbeat.
var ofOthers = regexp.MustCompile(`^LOCKBEAT_(CONFIG|NAME|FENCE|LONG|REQUIRE_[A-Z]+|` +
	`(.+_)?SERVICE_(HOST|PORT(_.+)?)|(.+_)?PORT(_[0-9]+_[A-Z]+(_[A-Z]+)?)?)$`)

// CheckNames refuses an environment with a variable that looks like ours and is
// none: it would do nothing, and the locks be elsewhere than meant. Values are
// not shown.
func CheckNames(environ []string) error {
	var faults []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "LOCKBEAT_") || value == "" || ofOthers.MatchString(name) ||
			slices.ContainsFunc(Variables(), func(v Variable) bool { return v.Name == name }) {
			continue
		}
		faults = append(faults, name)
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	names := make([]string, 0, len(Variables()))
	for _, v := range Variables() {
		names = append(names, v.Name)
	}
	return wrong(fmt.Sprintf("%s: there is no such variable; unset it, or correct its name: there "+
		"are %s", strings.Join(faults, ", "), strings.Join(names, ", ")))
}
