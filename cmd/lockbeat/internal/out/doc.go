// Package out writes what all commands print: tables and labelled lines for
// people, JSON for programs. What comes from other processes is made safe here:
// whatever a name holds, a terminal gets no byte of it that could move the
// cursor, change colours, or turn the order of letters.
package out
