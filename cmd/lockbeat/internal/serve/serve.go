// Package serve has the command that shows the page of package inspect/page in
// a browser.
//
// Names of locks may be personal data, and to break a lease is a right of its
// own. So the page is for this machine alone unless a password is asked for,
// and breaks leases only with one.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/locks"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/internal/deployment"
)

const help = `Show the locks in a browser, live.

It listens for this machine alone, unless --listen says otherwise: then, and to
break leases, it needs a password, by --password-file. The name that goes with
the password is who breaks a lease: the holder's log tells it. The program speaks
plain HTTP: for a network put a proxy with TLS in front of it, since the password
and the names of locks are readable on the way. Wrong passwords are logged, and a
client has four guesses a second; behind a proxy all clients are one.

Each page, and the tab of the browser, says which Redis and which prefix it
shows; with --environment and --colour also of what environment.`

// serving are the flags.
type serving struct {
	listen     string
	allowBreak bool
	password   string // the file
	secret     string // the file

	environment string
	page        page.Config
}

// Command returns the command.
func Command() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use: "serve", Short: "Show the locks in a browser", Long: help,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("serve takes no arguments: say where to listen by --listen")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "the `host:port` to listen at")
	f.BoolVar(&s.allowBreak, "allow-break", false, "leases can be broken; needs --password-file")
	f.StringVar(&s.password, "password-file", "", "a `file` with the password to ask for")
	f.StringVar(&s.environment, "environment", "",
		"a `name` on top of each page, such as production")
	f.StringVar(&s.page.Colour, "colour", "",
		"the `colour` there: red, orange, green, blue, violet or grey")
	f.StringVar(&s.page.TraceURL, "trace-url", "",
		"the `address` of a trace, with {trace} in place of its ID")
	f.StringVar(&s.secret, "secret-file", "", "a `file` with the secret of hashes, if any")
	return cmd
}

func (s *serving) run(cmd *cobra.Command) error {
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return exit.Usagef("--listen: %q is no host:port, such as 127.0.0.1:8080", s.listen)
	}
	local := isLocal(host)
	if s.password == "" && (s.allowBreak || !local) {
		return exit.Usagef("--password-file: is missing: without a password the page is for this " +
			"machine alone, and breaks nothing")
	}
	password := ""
	if s.password != "" {
		var warning string
		if password, warning, err = deployment.ReadPassword(s.password); err != nil {
			return exit.Usagef("--password-file: %w", err)
		}
		if warning != "" {
			cmd.PrintErrln("lockbeat: warning: --password-file: " + out.Line(warning))
		}
	}
	if s.page.LogSecret, err = locks.ReadSecret(s.secret); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if s.page.Title, err = connect.Where(ctx); err != nil {
		return err
	}
	if s.environment != "" {
		s.page.Title = s.environment + ", " + s.page.Title
	}
	store, err := connect.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	logger := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	s.page.Log = logger
	if s.allowBreak {
		s.page.BreakAs = nameOf
	}
	board, err := page.New(store, s.page)
	if err != nil {
		return exit.Usagef("--colour, --trace-url: %w", err)
	}
	defer board.Close()
	handler := http.Handler(board)
	if password != "" {
		handler = asking(password, logger, handler)
	}
	if local {
		handler = forLocalNames(handler)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return &exit.Error{Status: exit.System, Err: fmt.Errorf("--listen: %w", err)}
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "lockbeat: http://%s/ (Ctrl-C ends)\n", listener.Addr())
	return serve(ctx, listener, handler, board)
}

// bye is how long requests have to end.
const bye = 5 * time.Second

// serve serves until ctx ends, which is no error.
func serve(
	ctx context.Context, listener net.Listener, handler http.Handler, board *page.Page,
) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	server.RegisterOnShutdown(board.Close)
	done := make(chan struct{})
	var failed error
	go func() {
		defer close(done)
		failed = server.Serve(listener)
	}()
	select {
	case <-done:
		return &exit.Error{Status: exit.System, Err: failed}
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), bye)
	defer cancel()
	err := server.Shutdown(end)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-done // http.ErrServerClosed
	return err
}
