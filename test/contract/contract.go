// Package contract holds answers against the contract: whatever answer a test
// receives, of the handler alone or of the whole program, has to fit.
package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
)

// Document is the contract. It is parsed once, and only read.
var Document = sync.OnceValue(func() *openapi3.T {
	doc, err := apigen.GetSpec()
	if err != nil {
		panic(err)
	}
	doc.Servers = nil
	return doc
})

var router = sync.OnceValue(func() routers.Router {
	r, err := legacy.NewRouter(Document())
	if err != nil {
		panic(err)
	}
	return r
})

// Answer is an answer, whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Check returns what of the answer to req does not fit: its body against the
// schema, its headers, and that the operation knows the status and the code.
func Check(req *http.Request, a Answer) error {
	get := req.Clone(context.Background())
	if get.Method == http.MethodHead {
		get.Method = http.MethodGet
	}
	route, params, err := router().FindRoute(get)
	if err != nil || a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusNotFound && a.code() == string(apigen.ProblemCodeNotFound) {
		return a.problem(nil) // of no operation
	}
	var misfits []error
	if a.Status >= http.StatusBadRequest {
		misfits = append(misfits, a.problem(route.Operation))
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: get, PathParams: params, Route: route},
		Status:                 a.Status,
		Header:                 a.Header,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   a.Header.Get("Content-Type") == "text/event-stream" || a.Status == http.StatusNoContent,
		},
	}
	input.SetBodyBytes(a.Body)
	misfits = append(misfits, openapi3filter.ValidateResponse(context.Background(), input))
	if err := errors.Join(misfits...); err != nil {
		return fmt.Errorf("%s %s: status %d does not fit the contract: %w", req.Method, req.URL, a.Status, err)
	}
	return nil
}

func (a Answer) code() string {
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(a.Body, &p)
	return p.Code
}

// problem holds a refusal against the schema, and its code against what op
// documents; op is nil where there is no operation.
func (a Answer) problem(op *openapi3.Operation) error {
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		return fmt.Errorf("got Content-Type %q", got)
	}
	var raw any
	if err := json.Unmarshal(a.Body, &raw); err != nil {
		return err
	}
	if err := Document().Components.Schemas["Problem"].Value.VisitJSON(raw); err != nil {
		return fmt.Errorf("not a problem: %w", err)
	}
	var p apigen.Problem
	if err := json.Unmarshal(a.Body, &p); err != nil {
		return err
	}
	switch {
	case p.Status != a.Status:
		return fmt.Errorf("got status %d in the body", p.Status)
	case op != nil && !slices.Contains(Codes(op)[a.Status], p.Code):
		return fmt.Errorf("%s does not document %s", op.OperationID, p.Code)
	case (p.RetryAfterMs != nil) != (a.Header.Get("Retry-After") != ""):
		return fmt.Errorf("%s: retry_after_ms and Retry-After do not go together", p.Code)
	}
	return nil
}

// Codes returns the codes that an operation documents, by status: the names of
// the examples of each refusal.
func Codes(op *openapi3.Operation) map[int][]apigen.ProblemCode {
	codes := map[int][]apigen.ProblemCode{}
	for text, ref := range op.Responses.Map() {
		media := ref.Value.Content["application/problem+json"]
		status, err := strconv.Atoi(text)
		if media == nil || err != nil {
			continue
		}
		for name := range media.Examples {
			codes[status] = append(codes[status], apigen.ProblemCode(name))
		}
		slices.Sort(codes[status])
	}
	return codes
}
