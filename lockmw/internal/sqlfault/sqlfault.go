// Package sqlfault tells apart what databases answer when they refuse, without
// their drivers: drivers of PostgreSQL give an SQLSTATE with an error, the
// driver of MySQL and MariaDB begins the text with a number, and those of
// SQLite have its own words.
package sqlfault

import (
	"errors"
	"regexp"
	"strings"
)

// Fault is why a database has refused a statement.
type Fault int

const (
	// Other is any other reason, such as a link that is broken.
	Other Fault = iota
	// Conflict means that the database has undone the statement, and its
	// transaction, since another transaction was in its way: by a serialization
	// failure or a deadlock.
	Conflict
	// Busy means that another connection had SQLite's only right to write for
	// too long.
	Busy
	// Waited means that another transaction had a row for longer than a lock
	// may be waited for.
	Waited
	// Aborted means that an earlier statement of the transaction has failed.
	Aborted
	// ReadOnly means that the transaction, or the database, is only read.
	ReadOnly
	// NoTable means that the table is missing.
	NoTable
	// NoRight means that the user may not do this.
	NoRight
	// Shape means that the statement does not fit the table.
	Shape
	// Dialect means that the statement is none in this database's SQL.
	Dialect
)

// Permanent reports whether the same statement will be refused until the
// database is changed.
func (f Fault) Permanent() bool { return f >= ReadOnly }

// Of is why a database has refused. An error that is nil has no fault: Other.
func Of(err error) Fault {
	if err == nil {
		return Other
	}
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return ofState(coded.SQLState())
	}
	text := err.Error()
	if number := mysqlNumber.FindStringSubmatch(text); number != nil {
		return byNumber[number[1]]
	}
	for _, row := range byText {
		if strings.Contains(text, row.text) {
			return row.fault
		}
	}
	return Other
}

// ofState is the fault of an SQLSTATE of PostgreSQL.
func ofState(state string) Fault {
	switch state {
	case "40001", "40P01":
		return Conflict
	case "55P03":
		return Waited
	case "25P02":
		return Aborted
	case "25006":
		return ReadOnly
	case "42P01":
		return NoTable
	case "42501":
		return NoRight
	case "42601":
		return Dialect
	case "22003": // a token in a column of 32 bits
		return Shape
	}
	if strings.HasPrefix(state, "42") {
		return Shape
	}
	return Other
}

// mysqlNumber finds the number in a text such as "Error 1213 (40001): Deadlock
// found".
var mysqlNumber = regexp.MustCompile(`\bError (\d{4})(?: \(\w{5}\))?: `)

var byNumber = map[string]Fault{
	"1213": Conflict, // deadlock
	"1020": Conflict, // MariaDB: the row has changed since it was read
	"1205": Waited,
	"1290": ReadOnly, // the server
	"1836": ReadOnly, // the server
	"1792": ReadOnly, // the transaction
	"1146": NoTable,
	"1044": NoRight,
	"1142": NoRight,
	"1143": NoRight,
	"1054": Shape,
	"1264": Shape, // out of range
	"1064": Dialect,
}

var byText = []struct {
	text  string
	fault Fault
}{
	{"database is locked", Busy},
	{"attempt to write a readonly database", ReadOnly},
	{"no such table", NoTable},
	{"no such column", Shape},
	{"has no column named", Shape},
	{"ON CONFLICT clause does not match", Shape},
	{": syntax error", Dialect},
	{"unrecognized token", Dialect},
}
