package records

var (
	ReadSeen    = readSeen
	ReadWritten = readWritten
)
