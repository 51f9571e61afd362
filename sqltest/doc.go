// Package sqltest proves what works with SQL databases on real ones, PostgreSQL and SQLite. It is a
// module of its own, so that their drivers are no dependency of the library.
package sqltest
