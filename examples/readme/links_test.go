package readme_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	mark    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Each link of the README and of the docs leads to a file that exists, and to a
// heading in it, and the map leads to each page.
func TestLinks(t *testing.T) {
	t.Parallel()
	const root = "../.."
	pages, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	mapped := make(map[string]bool)
	for _, page := range append(pages, root+"/README.md", root+"/CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			file, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if filepath.Base(filepath.Dir(page)) == "docs" && filepath.Base(page) == "README.md" {
				mapped[filepath.Clean(target)] = true
			}
			_, err := os.Stat(target)
			assert.NoError(t, err, "%s has a link to it", page)
			if err == nil && anchor != "" {
				assert.Contains(t, anchors(t, target), anchor, "%s: %s", page, found[1])
			}
		}
	}
	for _, page := range pages {
		if filepath.Base(page) != "README.md" {
			assert.True(t, mapped[filepath.Clean(page)], "the map does not lead to %s", page)
		}
	}
}

// anchors are the headings of a page as links name them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var all []string
	for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
		plain := strings.ToLower(mark.ReplaceAllString(h[1], ""))
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}
