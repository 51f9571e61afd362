package tracing_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rules are what Prometheus reads, as far as ours go.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr string
			For         time.Duration
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// Each alert names what is there, by labels that its expression keeps, and says what to do: itself,
// and by a section of the page for the person on call, which has it in its table.
func TestAlerts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate.md")
	require.NoError(t, err)
	metrics, labels := scraped(t)
	text, err := os.ReadFile("../../tracing/alerts.yaml")
	require.NoError(t, err)
	var all rules
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&all))
	seen := make(map[string]bool)
	for _, group := range all.Groups {
		for _, rule := range group.Rules {
			require.False(t, seen[rule.Alert], "%s is there twice", rule.Alert)
			seen[rule.Alert] = true
			require.NotEmpty(t, checkNames(t, []string{rule.Expr}, metrics, labels), rule.Alert)
			require.Equal(t, strings.Count(rule.Expr, "("), strings.Count(rule.Expr, ")"), rule.Alert)
			require.Regexp(t, ` > [\d.]+$`, rule.Expr, rule.Alert)
			require.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
			link, section, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
			require.Regexp(t, `/blob/main/docs/operate\.md$`, link, rule.Alert)
			require.Contains(t, strings.ToLower(string(page)), "\n## "+section+"\n", rule.Alert)
			require.Contains(t, string(page), "`"+rule.Alert+"`", "%s is not in the table", rule.Alert)
			kept := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(rule.Expr)
			require.NotNil(t, kept, rule.Alert)
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(
				rule.Annotations["summary"], -1) {
				assert.Contains(t, strings.Split(kept[1], ", "), label[1], rule.Alert)
			}
		}
	}
	require.NotEmpty(t, seen)
}
