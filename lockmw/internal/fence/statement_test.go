package fence_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
)

const (
	postgres = fence.PostgreSQL
	mysql    = fence.MySQL
	sqlite   = fence.SQLite
)

func every() []fence.Dialect { return []fence.Dialect{postgres, mysql, sqlite} }

// kinds are statements as every database takes them, unless one is named. What
// is in doubt counts as one that writes; with MySQL a first word that is not
// known, as one that commits.
func kinds() map[fence.Kind]map[string][]fence.Dialect {
	return map[fence.Kind]map[string][]fence.Dialect{
		fence.Reads: {
			"SELECT 1":                                  every(),
			"((select a from b)) ; ; ":                  every(),
			"SELECT 'it''s; DELETE', \"x\"":             every(),
			"SELECT a FROM b WHERE c IN ($1)":           {postgres},
			"SELECT a FROM b WHERE c IN (?)":            {mysql, sqlite},
			"WITH a AS (SELECT 1) SELECT max(x) FROM a": every(),
			"/* a */ -- b\nSELECT count(*) FROM c":      every(),
			"SELECT 1 /* DELETE */ -- INSERT":           every(),
			"# it's\nSELECT 1":                          {mysql},
			"SELECT 1; SELECT 2; -- c":                  every(),
			"SELECT 1 FROM a FOR SHARE":                 {postgres, mysql},
			"SELECT 1 FROM a LOCK IN SHARE MODE":        {mysql},
			"SELECT a FROM b FETCH NEXT ROW ONLY":       {postgres},
			"SELECT value, next FROM a":                 every(),
			"SELECT $$DELETE; it's$$, $a$ $$ $a$":       {postgres},
			"SELECT a[1], b #>> '{c}'":                  {postgres},
			"/* /* */ DELETE */ SELECT 1":               {postgres},
			"SELECT [DELETE; it's]":                     {sqlite},
			"SELECT f(1) FROM pragma_table_info('a')":   {sqlite},
			"TABLE a":                          {postgres, mysql},
			"/*! DELETE */ SELECT 1":           {postgres, sqlite},
			"SHOW a":                           {postgres, mysql},
			"SET a = 1; SET b TO 'a;b'":        {postgres},
			"SET @a = 1, NAMES utf8":           {mysql},
			"SELECT FOUND_ROWS(), ROW_COUNT()": {mysql},
			"LISTEN a":                         {postgres},
			"RESET a":                          {postgres},
			"DISCARD ALL":                      {postgres},
			"USE a":                            {mysql},
			"PRAGMA foreign_keys = ON":         {sqlite},
			"PRAGMA main.table_info(a)":        {sqlite},
		},
		fence.Writes: {
			"SELECT U&\"next!0076al\" UESCAPE '!' ('s')": {postgres},
			"INSERT INTO a VALUES (1)":                   every(),
			"SELECT 1; DELETE FROM a":                    every(),
			"SET a = 1; DELETE FROM a":                   every(),
			"DELETE FROM a; SET a = 1":                   every(),
			"USE a; DELETE FROM a":                       {mysql},
			"LISTEN a; DELETE FROM a":                    {postgres},
			"DISCARD ALL; DELETE FROM a":                 {postgres},
			"PRAGMA cache_size = 1; DELETE FROM a":       {sqlite},
			"PRAGMA user_version = 1":                    {sqlite},
			"PRAGMA writable_schema = ON":                {sqlite},
			"PRAGMA optimize":                            {sqlite},
			"SELECT nextval('a')":                        {postgres, mysql},
			"SELECT NEXT\nVALUE FOR a":                   every(),
			"SELECT a.nextval":                           every(),
			"SET @a = NEXT VALUE FOR b":                  {mysql},
			"SET @a = f(1)":                              {mysql},
			"SHOW TABLES WHERE f(1)":                     {mysql},
			"SELECT \"count\"(1)":                        {postgres, mysql},
			"SELECT f (1)":                               {postgres, mysql},
			"SELECT f\f(1)":                              {postgres, mysql},
			"SELECT f\v(1)":                              {postgres, mysql},
			"SELECT f/* */(1)":                           {postgres, mysql},
			"SELECT f--\n(1)":                            {postgres, mysql},
			"SELECT a.now()":                             {postgres, mysql},
			"SELECT a . now ()":                          {postgres, mysql},
			"SELECT * INTO a FROM b":                     every(),
			"SELECT 1 FROM a FOR UPDATE":                 every(),
			"SELECT 1 FROM a FOR NO KEY UPDATE":          {postgres},
			"WITH a AS (SELECT 1)\ufeffDELETE FROM b":    every(),
			`SELECT '\'; DELETE FROM a; --'`:             every(),
			"-- no end":                                  {postgres, sqlite},
			"SELECT 1 /* no end":                         every(),
			"SELECT 'no end":                             every(),
			"SELECT 1\x00":                               every(),
			"SELECT `; DELETE FROM a; --`":               {postgres},
			"SELECT a$$; DELETE FROM a; --$$":            {postgres},
			"SELECT $a(';); DELETE FROM a; --')":         {sqlite},
			"-- a\rDELETE FROM a; --\nSELECT 1":          {postgres},
			"SELECT 1--1; DELETE FROM a":                 {mysql},
			"SELECT 1 /*! INTO @a */":                    {mysql},
			"SELECT 1 /*M!100000 INTO @a */":             {mysql},
			"/* /* */ DELETE FROM a /* */ */ SELECT 1":   {mysql, sqlite},
			"select":            every(),
			"TRUNCATE a":        {postgres},
			"COPY a FROM STDIN": {postgres},
			"DO $$ BEGIN DELETE FROM a; COMMIT; END $$":   {postgres},
			"EXPLAIN ANALYZE DELETE FROM a":               {postgres, mysql},
			"CALL a()":                                    {postgres, mysql},
			"PREPARE a AS DELETE FROM b":                  {postgres},
			"EXECUTE a":                                   {postgres},
			"COMMIT PREPARED 'a'":                         {postgres},
			"ROLLBACK PREPARED 'a'":                       {postgres},
			"ROLLBACK TO SAVEPOINT a":                     every(),
			"rollback work to a":                          {postgres, mysql},
			"ROLLBACK TRANSACTION TO a":                   {sqlite},
			"CREATE TABLE a (b INT)":                      {postgres, sqlite},
			"CREATE TEMPORARY TABLE a (b INT)":            every(),
			"CREATE OR REPLACE TEMPORARY TABLE a (b INT)": {mysql},
			"LOAD DATA INFILE 'a' INTO TABLE b":           {mysql},
			"INSERT INTO a VALUES ('it\\'s; COMMIT')":     {mysql},
			"INSERT INTO a VALUES (E'it\\'s; COMMIT')":    {postgres},
			"INSERT INTO a VALUES ('\\'), ('; COMMIT')":   {postgres, sqlite},
			"CREATE TRIGGER a AFTER INSERT ON b BEGIN UPDATE b SET c = CASE WHEN 1 THEN 2 END; " +
				"DELETE FROM a; END;": {sqlite},
			"CREATE FUNCTION a() RETURNS int BEGIN ATOMIC DELETE FROM a; SELECT 1; END": {postgres},
		},
		fence.Begins: {
			"begin":                               every(),
			" ;\ufeffBEGIN; ":                     every(),
			"START TRANSACTION":                   every(),
			"SAVEPOINT a":                         every(),
			"BEGIN; DELETE FROM a; COMMIT":        every(),
			"DELETE FROM a; BEGIN":                every(),
			"COMMIT AND CHAIN":                    {postgres, mysql},
			"ROLLBACK WORK AND CHAIN":             {postgres, mysql},
			"BEGIN NOT ATOMIC DELETE FROM a; END": {mysql},
			"set session autocommit = 1":          {mysql},
			"SET a = 1, @@`autocommit`=1":         {mysql},
			"LOCK TABLES a READ":                  {mysql},
		},
		fence.Ends: {
			"Commit":                            every(),
			"ROLLBACK":                          every(),
			"COMMIT AND NO CHAIN":               {postgres, mysql},
			"ROLLBACK; INSERT INTO to VALUES()": every(),
			"COMMIT; DELETE FROM a":             every(),
			"DELETE FROM a;/**/end":             every(),
			"SELECT 1; COMMIT":                  every(),
			"RELEASE a":                         every(),
			"PREPARE TRANSACTION 'a'":           {postgres},
			"/* /* */ COMMIT":                   {mysql, sqlite},
			"/* /* */ SELECT */ COMMIT":         {postgres},
			"SELECT '\\'; COMMIT; --'":          {postgres, sqlite},
			"CREATE TRIGGER a AFTER INSERT ON b BEGIN DELETE FROM a; END; COMMIT":      {sqlite, mysql},
			"CREATE FUNCTION a() RETURNS int BEGIN ATOMIC SELECT 1; END; COMMIT":       {postgres},
			"CREATE TABLE event (begin INT, end INT); COMMIT; DELETE FROM a":           {postgres, sqlite},
			"CREATE TABLE trigger (begin INT); COMMIT; DELETE FROM a":                  {sqlite},
			"CREATE TEMP TRIGGER a AFTER INSERT ON b BEGIN DELETE FROM a; END; COMMIT": {sqlite},
			"CREATE TABLE a (begin INT); COMMIT; DELETE FROM a":                        {postgres, sqlite},
			"CREATE PROCEDURE a() BEGIN IF b THEN BEGIN END; END IF; END; COMMIT":      {mysql},
			"CREATE FUNCTION a() RETURNS int LANGUAGE sql AS $$ SELECT 1; $$; COMMIT;": {postgres},
		},
		fence.Commits: {
			"UPDATE a SET b = 1; CALL c()": {mysql},
			"CALL c(); SELECT 1":           {mysql},
			"UPDATE a SET b = 1 /*!999999 ' */; COMMIT; UPDATE a SET b = 2": {mysql},
			"UPDATE a SET b = 1; /*M!999999 ' */ COMMIT":                    {mysql},
			"":                       {mysql},
			"CREATE TABLE a (b INT)": {mysql},
			"XA START 'a'":           {mysql},
			"TRUNCATE a":             {mysql},
			"SET PASSWORD = 'a'":     {mysql},
			"SET DEFAULT ROLE NONE":  {mysql},
			"SET STATEMENT max_statement_time=1 FOR DELETE FROM a": {mysql},
			"CHECK TABLE a":                          {mysql},
			"ANALYZE TABLE a":                        {mysql},
			"CACHE INDEX a IN b":                     {mysql},
			"LOAD INDEX INTO CACHE a":                {mysql},
			"RESET MASTER":                           {mysql},
			"START SLAVE":                            {mysql},
			"CHANGE MASTER TO a = 1":                 {mysql},
			"EXECUTE a":                              {mysql},
			"DELETE FROM a; DROP TABLE a":            {mysql},
			"/*! DELETE FROM a */":                   {mysql},
			"CREATE PROCEDURE a() BEGIN COMMIT; END": {mysql},
			"CREATE PROCEDURE a() BEGIN IF b THEN COMMIT; END IF; BEGIN COMMIT; END; END": {mysql},
		},
	}
}

// What a text does is known by its words.
func TestKindOf(t *testing.T) {
	t.Parallel()
	for kind, queries := range kinds() {
		for query, dialects := range queries {
			for _, d := range dialects {
				found, _ := d.KindOf(query)
				assert.Equal(t, kind, found, "%d: %q", d, query)
			}
		}
	}
}

// Whatever stands around a statement that writes, a text with it is none that
// reads.
func FuzzKindOf(f *testing.F) {
	for _, queries := range kinds() {
		for query := range queries {
			before, after, _ := strings.Cut(query, ";")
			f.Add(before, after)
		}
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, d := range every() {
			if kind, _ := d.KindOf(before); kind != fence.Reads {
				continue // its end may be within quotes
			}
			for _, query := range []string{
				before + "\n;DELETE FROM a; " + after, "DELETE FROM a;" + before + after,
				"WITH a AS (DELETE FROM b) " + after, before + "\n;COMMIT;" + after,
			} {
				kind, _ := d.KindOf(query)
				require.NotEqual(t, fence.Reads, kind, "%d: %q", d, query)
			}
		}
	})
}
