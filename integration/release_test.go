package integration_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const github = "https://github.com/lockbeat/lockbeat/"

// The changelog begins with what is not released yet. Each release has a day and a link to what is
// new in it.
func TestTheChangelogKeepsItsForm(t *testing.T) {
	t.Parallel()
	sections, changelog := changes(t)
	require.Greater(t, len(sections), 1)
	require.Equal(t, "[Unreleased]", sections[0][0])
	newest := sections[1][1]
	assert.Contains(t, changelog, "\n[Unreleased]: "+github+"compare/v"+newest+"...HEAD\n")
	for i, section := range sections[1:] {
		_, err := time.Parse(time.DateOnly, section[2])
		assert.NoError(t, err, section[0])
		link := "releases/tag/v" + section[1]
		if i+2 < len(sections) {
			link = "compare/v" + sections[i+2][1] + "...v" + section[1]
		}
		assert.Contains(t, changelog, "\n["+section[1]+"]: "+github+link+"\n")
	}
}

// A user who copies a command from a page gets the newest release.
func TestThePagesNameTheNewestRelease(t *testing.T) {
	t.Parallel()
	sections, _ := changes(t)
	pinned := regexp.MustCompile(`github\.com/lockbeat/lockbeat[\w/]*@(v\d[\w.-]*\w)`)
	pins := 0
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		page, err := os.ReadFile(file)
		for _, pin := range pinned.FindAllStringSubmatch(string(page), -1) {
			assert.Equal(t, "v"+sections[1][1], pin[1], "%s: %s", file, pin[0])
			pins++
		}
		return err
	})
	require.NoError(t, err)
	assert.NotZero(t, pins)
}

// Dependabot's file can't read go.work.
func TestDependabotKnowsEachModule(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("../.github/dependabot.yml")
	require.NoError(t, err)
	list, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	require.NoError(t, err)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for folder := range strings.FieldsSeq(string(list)) {
		folder, err := filepath.Rel(root, folder)
		require.NoError(t, err)
		assert.Contains(t, string(config), "\n      - "+path.Join("/", folder)+"\n")
	}
}

// changes returns the sections of the changelog, newest first, each as its heading, version and
// day, and the changelog itself.
func changes(t *testing.T) (sections [][]string, changelog string) {
	t.Helper()
	text, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	heading := regexp.MustCompile(`(?m)^## (.*)$`)
	version := regexp.MustCompile(`^\[([\w.-]+)\](?: - (.*))?$`)
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		section := version.FindStringSubmatch(found[1])
		require.NotNil(t, section, "CHANGELOG.md: %q is not as '[1.2.3] - 2026-01-31' is", found[1])
		sections = append(sections, section)
	}
	return sections, string(text)
}
