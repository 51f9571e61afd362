package integration_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const (
	manifests = "../examples/start/kubernetes/start.yaml"
	alerts    = "../tracing/alerts.yaml"
	rule      = "../tracing/prometheusrule.yaml"
	board     = "../tracing/dashboard.json"
)

var write = flag.Bool("write", false, "write the PrometheusRule from the rules")

// strictly decodes a document into what it is, and fails at a field that this has not.
func strictly[T any](t *testing.T, document string) T {
	t.Helper()
	var into T
	require.NoError(t, yaml.UnmarshalStrict([]byte(document), &into))
	return into
}

// The manifests are what Kubernetes and Prometheus' operator take, and their names meet.
func TestManifests(t *testing.T) {
	t.Parallel()
	var (
		deployment apps.Deployment
		service    core.Service
		monitor    monitoring.ServiceMonitor
	)
	for document := range strings.SplitSeq(readText(t, manifests), "\n---\n") {
		var kind meta.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(document), &kind))
		switch kind.APIVersion + " " + kind.Kind {
		case "apps/v1 Deployment":
			deployment = strictly[apps.Deployment](t, document)
		case "v1 Service":
			service = strictly[core.Service](t, document)
		case monitoring.SchemeGroupVersion.String() + " ServiceMonitor":
			monitor = strictly[monitoring.ServiceMonitor](t, document)
		default:
			assert.Fail(t, "what is that?", kind.String())
		}
	}
	pod := deployment.Spec.Template
	require.Len(t, pod.Spec.Containers, 1)
	container := pod.Spec.Containers[0]
	ports := make(map[string]int32)
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	assert.Equal(t, map[string]int32{"http": 8080, "grpc": 9090}, ports, "as in examples/start")
	assert.Equal(t, "/ready", container.ReadinessProbe.HTTPGet.Path)
	assert.Contains(t, ports, container.ReadinessProbe.HTTPGet.Port.String())
	assert.Nil(t, container.LivenessProbe)
	sleep := container.Lifecycle.PreStop.Sleep.Seconds
	const shutdown = 20 // of stopAll
	assert.Greater(t, *pod.Spec.TerminationGracePeriodSeconds, sleep+shutdown)

	chooses := func(selector *meta.LabelSelector, has map[string]string) {
		t.Helper()
		s, err := meta.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		assert.True(t, s.Matches(labels.Set(has)))
	}
	chooses(deployment.Spec.Selector, pod.Labels)
	chooses(&meta.LabelSelector{MatchLabels: service.Spec.Selector}, pod.Labels)
	chooses(&monitor.Spec.Selector, service.Labels)
	for _, port := range service.Spec.Ports {
		assert.Contains(t, ports, port.TargetPort.String())
	}
	require.Len(t, monitor.Spec.Endpoints, 1)
	assert.Contains(t, ports, monitor.Spec.Endpoints[0].Port)
	assert.Equal(t, "/metrics", monitor.Spec.Endpoints[0].Path)
}

// The PrometheusRule has the rules, word by word: run this with -args -write when they change.
func TestPrometheusRule(t *testing.T) {
	t.Parallel()
	rules := strictly[monitoring.PrometheusRuleSpec](t, readText(t, alerts))
	require.NotEmpty(t, rules.Groups)
	if *write {
		text := "# The rules of alerts.yaml, for Prometheus' operator.\n" +
			"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n" +
			"metadata:\n  name: lockbeat\nspec:\n"
		_, groups, _ := strings.Cut("\n"+readText(t, alerts), "\ngroups:")
		for line := range strings.Lines("groups:" + groups) {
			if strings.TrimSpace(line) != "" {
				line = "  " + line
			}
			text += line
		}
		require.NoError(t, os.WriteFile(rule, []byte(text), 0o644)) //nolint:gosec // it is public
	}
	written := strictly[monitoring.PrometheusRule](t, readText(t, rule))
	assert.Equal(t, monitoring.PrometheusRuleKind, written.Kind)
	assert.Equal(t, monitoring.SchemeGroupVersion.String(), written.APIVersion)
	assert.NotEmpty(t, written.Name)
	assert.Equal(t, rules, written.Spec, "go test ./integration -run TestPrometheusRule -args -write")
}

// Grafana's own types have each field of the dashboard.
func TestDashboardImports(t *testing.T) {
	t.Parallel()
	var d dashboard.Dashboard  //nolint:staticcheck // the form that all versions of Grafana import
	var faults cog.BuildErrors // none is not nil, but none
	if err := d.UnmarshalJSONStrict([]byte(readText(t, board))); !errors.As(err, &faults) {
		require.NoError(t, err)
	}
	require.Empty(t, faults)
	assert.NotEmpty(t, d.Panels)
}
