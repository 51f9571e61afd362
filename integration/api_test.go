package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// make api names what breaks users since the last release, in every module, and wants the changelog
// to name it, too. It says so if there is nothing to compare with.
func TestWhatBreaksUsersIsNamed(t *testing.T) {
	t.Parallel()
	repo := newRepo(t)
	api := func() string { return repo.run("make", "-s", "api") }
	repo.write("CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0]\n\n### Breaking\n\nOpen, Close\n")
	repo.write("go.mod", "module example.com/repo\n\ngo 1.26.0\n")
	repo.write("lock/lock.go", "package lock\n\nfunc Open(name string) {}\n\nfunc Close() {}\n")
	repo.write("testutil/servers/servers.go", "package servers\n\nfunc Start() {}\n")
	repo.write("sub/go.mod", "module example.com/repo/sub\n\ngo 1.26.0\n\n"+
		"require example.com/repo v0.1.0\n\nreplace example.com/repo => ..\n")
	repo.write("sub/sub.go", "package sub\n\nimport _ \"example.com/repo/lock\"\n\nfunc Wrap() {}\n")
	repo.commit()
	assert.Contains(t, api(), "NOTHING WAS COMPARED")
	assert.True(t, repo.passed)

	repo.run("git", "tag", "v0.1.0")
	repo.run("git", "tag", "sub/v0.1.0")
	repo.write("lock/lock.go", "package lock\n\nfunc Open(name string) {}\n\nfunc Close() {}\n\nfunc New() {}\n")
	repo.write("testutil/servers/servers.go", "package servers\n")
	repo.commit()
	said := api()
	assert.True(t, repo.passed, said)
	assert.Contains(t, said, "- example.com/repo/lock.New: added")

	repo.write("lock/lock.go", "package lock\n\nfunc Open(name string, n int) {}\n")
	repo.write("sub/sub.go", "package sub\n\nimport _ \"example.com/repo/lock\"\n")
	said = api()
	assert.False(t, repo.passed, said)
	assert.Contains(t, said, "\n  example.com/repo/lock.Open: changed from func(string) to")
	assert.Contains(t, said, "\n  example.com/repo/lock.Close: removed")
	assert.Contains(t, said, "\n  example.com/repo/sub.Wrap: removed")

	repo.write("CHANGELOG.md", "## [Unreleased]\n\n### Breaking\n\n`Open` wants a number; Wrap goes, Closer stays.\n\n"+
		"### Removed\n\nClose\n\n## [0.1.0]\n\n### Breaking\n\nOpen, Close\n")
	said = api()
	assert.False(t, repo.passed, said)
	assert.NotContains(t, said, "\n  example.com/repo/sub.Wrap")
	assert.Contains(t, said, "\n  example.com/repo/lock.Close: removed")

	repo.write("CHANGELOG.md", "## [Unreleased]\n\n### Breaking\n\n`Open` wants a number; Wrap, Close go.\n")
	said = api()
	assert.True(t, repo.passed, said)
}

// repo is a repository with our Makefile and scripts, and nothing else.
type repo struct {
	t      *testing.T
	dir    string
	passed bool // the last command
}

func newRepo(t *testing.T) *repo {
	r := &repo{t: t, dir: t.TempDir()}
	ours, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, name := range []string{"Makefile", "scripts/api", "scripts/tool"} {
		text, err := os.ReadFile(filepath.Join(ours, name))
		require.NoError(t, err)
		r.write(name, string(text))
	}
	// Tools are built once, for the checkout.
	require.NoError(t, os.MkdirAll(filepath.Join(ours, "bin"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(ours, "bin"), filepath.Join(r.dir, "bin")))
	r.write(".gitignore", "/bin\n")
	r.run("git", "init", "-q")
	return r
}

func (r *repo) write(name, text string) {
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o755)) // of which some are programs
}

func (r *repo) commit() {
	r.run("git", "add", "--all")
	r.run("git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", "test")
	require.True(r.t, r.passed)
}

// run returns what a command says in the repository, on both of its streams.
func (r *repo) run(name string, args ...string) string {
	command := exec.CommandContext(r.t.Context(), name, args...)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull)
	said, err := command.CombinedOutput()
	r.passed = err == nil
	return string(said)
}
