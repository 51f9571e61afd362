package tracing_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each alert names what is there, by labels that its expression keeps, and says what to do: itself,
// and by a section of the page for the person on call, which has it in its table.
func TestAlerts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate.md")
	require.NoError(t, err)
	metrics, labels := scraped(t)
	text, err := os.ReadFile("../../tracing/alerts.yaml")
	require.NoError(t, err)
	all, errs := rulefmt.Parse(text, false, model.UTF8Validation) // as promtool does
	require.Empty(t, errs)
	seen := make(map[string]bool)
	for _, group := range all.Groups {
		for _, rule := range group.Rules {
			seen[rule.Alert] = true
			require.NotEmpty(t, checkNames(t, []string{rule.Expr}, metrics, labels), rule.Alert)
			require.Regexp(t, ` > [\d.]+( #|$)`, rule.Expr, rule.Alert)
			require.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
			link, section, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
			require.Regexp(t, `/blob/main/docs/operate\.md$`, link, rule.Alert)
			require.Contains(t, strings.ToLower(string(page)), "\n## "+strings.ReplaceAll(section, "-", " ")+"\n",
				rule.Alert)
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
