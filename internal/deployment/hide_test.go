package deployment_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/deployment"
)

// What is left leads to the same servers, and knows no user.
func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://host:6379/3":                      "redis://host:6379/3",
		"redis://:secret@host:6379/3":              "redis://host:6379/3",
		"rediss://u:se@cr/et@a:1,b:2?cluster=true": "rediss://a:1,b:2?cluster=true",
		"redis://u:secret@h?sentinel_master=a@b":   "redis://h?sentinel_master=a@b",
	} {
		assert.Equal(t, want, deployment.WithoutPassword(url))
		assert.False(t, deployment.HasPassword(deployment.WithoutPassword(url)))
	}
}
