package httpapi

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/test/contract"
)

// kindsOf is what each operation's call of the domain can return. Source: the
// comments of service.Store, and service.Service for draining.
var kindsOf = map[string][]service.Kind{
	"acquireMutex": {
		service.KindLocked, service.KindTokenSpent, service.KindSuperseded, service.KindLeftLine,
		service.KindMutexNotDeclared, service.KindMaxHoldReached, service.KindTooManyWaiters,
		service.KindUnavailable, service.KindDraining, service.KindOutcomeUnknown,
	},
	"guardMutex":        {service.KindNotOwner, service.KindMaxHoldReached, service.KindUnavailable, service.KindOutcomeUnknown},
	"guardMutexes":      {},
	"releaseMutex":      {service.KindNotOwner, service.KindUnavailable, service.KindOutcomeUnknown},
	"checkFencingToken": {service.KindMutexNotDeclared, service.KindUnavailable},
	"getMutex":          {service.KindMutexNotDeclared, service.KindUnavailable, service.KindDraining},
	"listWaiters":       {service.KindMutexNotDeclared, service.KindUnavailable},
	"listHistory":       {service.KindMutexNotDeclared, service.KindUnavailable},
	"streamEvents":      {service.KindMutexNotDeclared, service.KindUnavailable, service.KindDraining},
	"breakOwnership": {
		service.KindPreconditionFailed, service.KindMutexNotDeclared, service.KindUnavailable, service.KindOutcomeUnknown,
	},
	"declareMutex": {service.KindPreconditionFailed, service.KindUnavailable, service.KindOutcomeUnknown},
	"removeMutex": {
		service.KindMutexNotDeclared, service.KindMutexHeld, service.KindPreconditionFailed,
		service.KindUnavailable, service.KindOutcomeUnknown,
	},
	"listMutexes":  {service.KindUnavailable},
	"getHealth":    {},
	"getReadiness": {service.KindUnavailable, service.KindDraining},
	"getContract":  {},
}

func TestContractIsValid(t *testing.T) {
	if err := contract.Document().Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
}

// What is served is what was written by hand.
func TestServedContractIsTheOneInTheRepository(t *testing.T) {
	written, err := openapi3.NewLoader().LoadFromFile("../../openapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	served, err := openapi3.NewLoader().LoadFromData([]byte(newHouse(t, defaultPolicy).get("/openapi.json").want(200).text))
	if err != nil {
		t.Fatal(err)
	}
	want, err := written.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := served.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the generated code is not of this contract: go generate ./internal/httpapi")
	}
}

func TestEveryKindHasOneRefusal(t *testing.T) {
	seen := map[apigen.ProblemCode]service.Kind{}
	for _, kind := range service.Kinds() {
		r, ok := refusals[kind]
		if !ok {
			t.Errorf("%s has no refusal", kind)
			continue
		}
		if other, twice := seen[r.code]; twice {
			t.Errorf("%s and %s have the same code", kind, other)
		}
		seen[r.code] = kind
		if p := problemOf(service.Of(kind)); p.Code != r.code || p.Status != r.status {
			t.Errorf("%s: got %d %s", kind, p.Status, p.Code)
		}
	}
	if len(refusals) != len(service.Kinds()) {
		t.Errorf("got %d refusals, want %d", len(refusals), len(service.Kinds()))
	}
}

// The contract lists, for each operation, exactly what can happen.
func TestContractDocumentsEveryRefusal(t *testing.T) {
	forEachOperation(func(method, path string, op *openapi3.Operation) {
		want := map[int][]apigen.ProblemCode{
			http.StatusBadRequest:          {apigen.ProblemCodeInvalidArgument},
			http.StatusInternalServerError: {apigen.ProblemCodeInternal},
		}
		if op.RequestBody != nil {
			want[bodyTooLarge.status] = []apigen.ProblemCode{bodyTooLarge.code}
		}
		kinds, known := kindsOf[op.OperationID]
		if !known {
			t.Errorf("%s: what can it return?", op.OperationID)
		}
		for _, kind := range kinds {
			r := refusals[kind]
			want[r.status] = append(want[r.status], r.code)
		}
		for status := range want {
			slices.Sort(want[status])
		}
		if got := contract.Codes(op); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s %s:\n got %v\nwant %v", method, path, got, want)
		}
	})
}

func TestEveryCodeOfTheContractCanHappen(t *testing.T) {
	can := map[string]bool{
		string(internal.code): true, string(notFound.code): true,
		string(methodNotAllowed.code): true, string(bodyTooLarge.code): true,
	}
	for _, r := range refusals {
		can[string(r.code)] = true
	}
	for _, code := range contract.Document().Components.Schemas["ProblemCode"].Value.Enum {
		if !can[code.(string)] {
			t.Errorf("nothing has code %s", code)
		}
		delete(can, code.(string))
	}
	for code := range can {
		t.Errorf("the contract does not know %s", code)
	}
}

// An example that differs from the answer would be copied into clients.
func TestContractExamplesAreWhatTheServerWrites(t *testing.T) {
	for name, ref := range contract.Document().Components.Examples {
		example, ok := ref.Value.Value.(map[string]any)
		if !ok || example["code"] == nil {
			continue
		}
		code := example["code"].(string)
		if !strings.HasPrefix(name, code) {
			t.Errorf("example %s has code %s", name, code)
		}
		r, ok := refusalWithCode(apigen.ProblemCode(code))
		if !ok {
			t.Errorf("example %s: no refusal has code %s", name, code)
			continue
		}
		p := r.problem("")
		if example["type"] != p.Type || example["title"] != p.Title || example["status"] != float64(p.Status) {
			t.Errorf("example %s: got %v %v %v, want %v %v %v", name,
				example["type"], example["title"], example["status"], p.Type, p.Title, p.Status)
		}
	}
}

func refusalWithCode(code apigen.ProblemCode) (refusal, bool) {
	others := []refusal{internal, notFound.refusal, methodNotAllowed.refusal, bodyTooLarge.refusal}
	for _, r := range slices.Concat(slices.Collect(maps.Values(refusals)), others) {
		if r.code == code {
			return r, true
		}
	}
	return refusal{}, false
}

func TestEndingsStatesAndEventsAreThoseOfTheDomain(t *testing.T) {
	enums := map[string][]string{
		"Ending": {string(service.EndedUnknown), string(service.EndedReleased), string(service.EndedExpired),
			string(service.EndedBroken), string(service.EndedLeft)},
		"MutexState": {string(service.StateIdle), string(service.StateTTL), string(service.StateTransition)},
		"EventType": {string(service.EventAcquired), string(service.EventGuarded), string(service.EventTransition),
			string(service.EventReleased), string(service.EventExpired), string(service.EventBroken),
			string(service.EventQueued), string(service.EventLeft), string(service.EventReset)},
	}
	for schema, want := range enums {
		var got []string
		for _, v := range contract.Document().Components.Schemas[schema].Value.Enum {
			got = append(got, v.(string))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", schema, got, want)
		}
	}
}

func forEachOperation(f func(method, path string, op *openapi3.Operation)) {
	paths := contract.Document().Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		ops := paths[path].Operations()
		for _, method := range slices.Sorted(maps.Keys(ops)) {
			f(method, path, ops[method])
		}
	}
}
