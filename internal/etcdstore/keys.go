package etcdstore

import (
	"strings"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// keys draws the layout below one prefix. Names contain no slash, so that a
// mutex's own keys are exactly one range.
type keys struct{ prefix string }

func (k keys) mutexes() string                 { return k.prefix + "m/" }
func (k keys) mutex(n service.Name) string     { return k.prefix + "m/" + string(n) + "/" }
func (k keys) owner(n service.Name) string     { return k.mutex(n) + "owner" }
func (k keys) line(n service.Name) string      { return k.mutex(n) + "line/" }
func (k keys) declarations() string            { return k.prefix + "declared/" }
func (k keys) declared(n service.Name) string  { return k.declarations() + string(n) }
func (k keys) histories() string               { return k.prefix + "history/" }
func (k keys) history(n service.Name) string   { return k.histories() + string(n) }
func (k keys) settledOf(n service.Name) string { return k.prefix + "settled/" + string(n) + "/" }
func (k keys) replicas() string                { return k.prefix + "replicas/" }
func (k keys) replica(id string) string        { return k.replicas() + id }

func (k keys) entry(n service.Name, p service.Pair) string   { return k.line(n) + string(p) }
func (k keys) settled(n service.Name, p service.Pair) string { return k.settledOf(n) + string(p) }

// keyKind says what a key holds.
type keyKind int

const (
	keyOther keyKind = iota
	keyOwner
	keyEntry
	keySettled
	keyDeclared
	keyHistory
	keyReplica
)

// parse is the inverse of the functions above: the kind of key, the mutex, and
// the pair or the replica.
func (k keys) parse(key string) (keyKind, service.Name, string) {
	rest, ok := strings.CutPrefix(key, k.prefix)
	if !ok {
		return keyOther, "", ""
	}
	area, rest, below := strings.Cut(rest, "/")
	name, tail, nested := strings.Cut(rest, "/")
	switch {
	case !below:
		return keyOther, "", ""
	case area == "m" && tail == "owner":
		return keyOwner, service.Name(name), ""
	case area == "m" && strings.HasPrefix(tail, "line/"):
		return keyEntry, service.Name(name), tail[len("line/"):]
	case area == "settled" && nested:
		return keySettled, service.Name(name), tail
	case area == "declared" && !nested:
		return keyDeclared, service.Name(name), ""
	case area == "history" && !nested:
		return keyHistory, service.Name(name), ""
	case area == "replicas" && !nested:
		return keyReplica, "", name
	}
	return keyOther, "", ""
}
