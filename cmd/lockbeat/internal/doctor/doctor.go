package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
)

const help = `Look whether Redis is fit for locks, and say what to change. Nothing is
changed: what the user may do is found out by commands that have no effect.

--json prints {"worst": "WARN", "findings": [{"check": "memory", "server":
"10.0.0.1:6379", "status": "OK", "found": "...", "change": "..."}]}.

--db postgres://user@host/name (or mysql://) looks at a database of fences
instead, as the program's user: table, rights, engine, level. A password comes
from PGPASSWORD or ~/.pgpass; others on the machine can read a URL's.

Each line is OK, unknown (the user has no right to look), WARN, or FAIL: locks
can't be granted, or are not safe. The exit status says the worst of them: 0 OK,
3 unknown, 1 WARN, 2 FAIL, as plug-ins of Nagios have it.`

// Command returns the command.
func Command() *cobra.Command {
	var asJSON bool
	var database string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look whether Redis is fit for locks", Long: help,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("doctor takes no arguments: the environment says where Redis is")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := &report{tell: func(finding) {}}
			w, failed := cmd.OutOrStdout(), error(nil)
			if !asJSON {
				columns := out.Columns(w)
				r.tell = func(f finding) {
					_, err := fmt.Fprint(w, f.text(columns))
					failed = errors.Join(failed, err)
				}
			}
			if cmd.Flags().Changed("db") {
				r.fences(cmd.Context(), database)
			} else {
				r.examine(cmd.Context())
			}
			if asJSON {
				failed = out.JSON(w, struct {
					Worst    status    `json:"worst"`
					Findings []finding `json:"findings"`
				}{r.worst(), r.findings})
			}
			if failed != nil {
				return failed
			}
			if worst := r.worst(); worst > ok {
				return &exit.Error{Status: worst.exitStatus()}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&database, "db", "", "look at a database of fences instead, at this URL")
	return cmd
}

// examine looks at all there is.
func (r *report) examine(ctx context.Context) {
	d, err := connect.Dial(ctx)
	if err != nil {
		f := finding{
			Check: "connection", Status: failure,
			Found:  strings.TrimPrefix(err.Error(), "lockbeat: "),
			Change: "see that the server runs, and `lockbeat help environment`",
		}
		if isBusy(f.Found) {
			f.Change = endScript(f.Found)
		}
		r.add(f)
		return
	}
	defer d.Client.Close()
	r.add(finding{Check: "connection", Found: strings.Join(d.Addresses(), ", ") + ", " +
		modes[d.Client.Mode()]})
	var all []server // that answer
	for _, s := range servers(ctx, d.Client, r) {
		if r.server(ctx, &s) {
			all = append(all, s)
		}
	}
	if len(all) == 0 { // it has been said why
		return
	}
	if d.Client.Mode() == rueidis.ClientModeCluster {
		r.add(cluster(ctx, all[0]))
	}
	if d.Master != "" {
		sentinels(ctx, d, r)
	}
	rightsOf(ctx, d.Client, d.Prefix, r)
	r.add(keys(ctx, d))
	r.add(otherPrefixes(ctx, all, d.Prefix))
}

var modes = map[rueidis.ClientMode]string{
	rueidis.ClientModeStandalone: "one server", rueidis.ClientModeSentinel: "behind Sentinels",
	rueidis.ClientModeCluster: "a cluster",
}

// server looks at one that holds locks, as long as it answers.
func (r *report) server(ctx context.Context, s *server) (answers bool) {
	for _, look := range []func(context.Context) finding{
		s.version, s.latency, s.memory, s.persistence, s.replicas, s.clock,
	} {
		f := look(ctx)
		f.Server = s.addr
		r.add(f)
		if f.silent {
			return false
		}
	}
	return true
}

// text is a finding as it is printed.
func (f finding) text(columns int) string {
	what := f.Check
	if f.Server != "" {
		what += " of " + f.Server
	}
	text := paragraph(f.Status.String(), what+": "+f.Found, columns)
	if f.Change != "" {
		text += paragraph("", "-> "+f.Change, columns)
	}
	return text
}

// margin is where the text of a paragraph begins.
const margin = 9

// paragraph is a text with a label before it, in lines that fit.
func paragraph(label, text string, columns int) string {
	if columns > 0 {
		columns = max(columns-margin, margin)
	}
	text = strings.ReplaceAll(out.Wrap(out.Line(text), columns), "\n",
		"\n"+strings.Repeat(" ", margin))
	return fmt.Sprintf("%-*s%s\n", margin, label, text)
}
