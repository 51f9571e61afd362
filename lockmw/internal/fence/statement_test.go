package fence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
)

// What is in doubt counts as a statement that writes.
func TestKindOf(t *testing.T) {
	t.Parallel()
	for query, kind := range map[string]fence.Kind{
		"":                                fence.Writes,
		"-- no end":                       fence.Writes,
		"SELECT 1":                        fence.Reads,
		" ;(select a from b) ; ":          fence.Reads,
		"SELECT 'it''s; DELETE', \"x\"":   fence.Reads,
		"SELECT a FROM b WHERE c IN ($1)": fence.Reads,
		"WITH a AS (SELECT 1) SELECT max(x) FROM a": fence.Reads,
		"/* a */ -- b\nSELECT count(*) FROM c":      fence.Reads,
		"SELECT 1; DELETE FROM a":                   fence.Writes,
		"SELECT 1 /* a */":                          fence.Writes,
		"SELECT nextval('a')":                       fence.Writes,
		"SELECT \"count\"(1)":                       fence.Writes,
		"SELECT f (1)":                              fence.Writes,
		"SELECT * INTO a FROM b":                    fence.Writes,
		"SELECT 1 FROM a FOR UPDATE":                fence.Writes,
		"SELECT $$a$$":                              fence.Writes,
		`SELECT '\'; DELETE FROM a; --'`:            fence.Writes,
		"SELECT 'no end":                            fence.Writes,
		"/*! DELETE FROM a */ SELECT 1":             fence.Writes,
		"EXPLAIN ANALYZE DELETE FROM a":             fence.Writes,
		"SET a = 1":                                 fence.Reads,
		"SET @a = f(1)":                             fence.Writes,
		"begin":                                     fence.Begins,
		"START TRANSACTION":                         fence.Begins,
		"SAVEPOINT a":                               fence.Begins,
		"Commit":                                    fence.Ends,
		"ROLLBACK":                                  fence.Ends,
		"ROLLBACK TO SAVEPOINT a":                   fence.Writes,
		"RELEASE a":                                 fence.Ends,
		"CREATE TABLE a (b INT)":                    fence.Writes,
	} {
		require.Equal(t, kind, fence.PostgreSQL.KindOf(query), "%q", query)
	}
	for query, kind := range map[string]fence.Kind{
		"CREATE TABLE a (b INT)": fence.Commits, "CREATE TEMPORARY TABLE a (b INT)": fence.Writes,
		"set session autocommit = 1": fence.Commits, "XA START 'a'": fence.Commits,
		"# a\nINSERT INTO a VALUES (1)": fence.Writes,
	} {
		require.Equal(t, kind, fence.MySQL.KindOf(query), "%q", query)
	}
}

// No query that begins as one that reads hides a word that writes.
func FuzzKindOf(f *testing.F) {
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, d := range []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite} {
			d.KindOf(before + " DELETE " + after) // without a panic
		}
		if before == "" {
			require.NotEqual(t, fence.Reads, fence.PostgreSQL.KindOf("WITH a AS (DELETE FROM b) "+after))
		}
	})
}
