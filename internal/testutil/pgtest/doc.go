// Package pgtest runs private PostgreSQL servers for tests of what only a real
// one can prove: transactions that overlap, a crash between an effect and its
// commit.
//
//	server := pgtest.Start(t)                    // empty, on a socket in a folder of its own
//	db, err := sql.Open("pgx", server.DSN())     // by the driver that the test likes
//
// It needs the distribution's package, of which it takes initdb and postgres:
// from the PATH, or the newest below /usr/lib/postgresql. PostgreSQL does not
// run as root, so a test that does starts it as the user postgres, or else
// nobody.
//
// A server belongs to the process that started it: it ends with the test and,
// on Linux, when the process dies in any way. Its log is shown when the test
// fails.
//
// Where PostgreSQL is not installed, [Start] skips the test with a line that
// says so. With LOCKBEAT_REQUIRE_POSTGRES=1 in the environment it fails the
// test instead, so that a run which must prove something can't pass by
// skipping.
//
// The package needs Unix and is empty elsewhere. It is test code: no production
// package may import it.
package pgtest
