package httpapi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// maxBody bounds a request's body. Source: the contract.
const maxBody = 1 << 20

// bodyTimeout bounds how long a body may take to arrive: 1 MiB at 300 kbit/s.
// It is not for the wait that follows.
const bodyTimeout = 30 * time.Second

// validator holds requests against the contract. Names, ranges and required
// fields are checked here and nowhere else; the generated code checks none.
type validator struct {
	operations  map[string]*operation // by method and gin's path
	bodyTimeout time.Duration
}

// operation is what the contract says of one.
type operation struct {
	route  *routers.Route
	params []*openapi3.Parameter
	body   *openapi3.Schema // nil = takes none
}

func newValidator() (*validator, error) {
	doc, err := apigen.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("httpapi: contract: %w", err)
	}
	doc.Servers = nil // the paths are ours, whatever the host
	v := &validator{operations: map[string]*operation{}, bodyTimeout: bodyTimeout}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			v.operations[method+" "+ginPath(path)] = &operation{
				route:  &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op},
				params: parametersOf(item, op),
				body:   bodyOf(op),
			}
		}
	}
	return v, nil
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func ginPath(path string) string { return pathParameter.ReplaceAllString(path, ":$1") }

func parametersOf(item *openapi3.PathItem, op *openapi3.Operation) []*openapi3.Parameter {
	var params []*openapi3.Parameter
	for _, ref := range slices.Concat(item.Parameters, op.Parameters) {
		params = append(params, ref.Value)
	}
	return params
}

func bodyOf(op *openapi3.Operation) *openapi3.Schema {
	if op.RequestBody == nil {
		return nil
	}
	return op.RequestBody.Value.Content.Get("application/json").Schema.Value
}

// validate is the middleware. A path that is not routed is refused later.
func (v *validator) validate(c *gin.Context) {
	if c.FullPath() == "" {
		return
	}
	op := v.operations[c.Request.Method+" "+c.FullPath()]
	if op == nil {
		refuse(c, fmt.Errorf("no operation for %s %s", c.Request.Method, c.FullPath()))
		return
	}
	if err := op.checkParams(c); err != nil {
		refuse(c, err)
		return
	}
	text, err := readBody(c, v.bodyTimeout)
	if err != nil {
		refuse(c, err)
		return
	}
	if err := op.checkBody(c, text); err != nil {
		refuse(c, err)
	}
}

func (op *operation) checkParams(c *gin.Context) error {
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return service.Invalid("", "the query is not escaped as it must be")
	}
	if err := op.checkQueryNames(query); err != nil {
		return err
	}
	input := &openapi3filter.RequestValidationInput{
		Request:     c.Request,
		PathParams:  make(map[string]string, len(c.Params)),
		QueryParams: query,
		Route:       op.route,
		Options:     &openapi3filter.Options{SkipSettingDefaults: true},
	}
	for _, p := range c.Params {
		input.PathParams[p.Key] = p.Value
	}
	for _, p := range op.params {
		if p.In == openapi3.ParameterInHeader && len(c.Request.Header.Values(p.Name)) > 1 {
			return service.Invalid(p.Name, "is given twice")
		}
		if err := openapi3filter.ValidateParameter(c.Request.Context(), input, p); err != nil {
			return service.Invalid(p.Name, reasonOf(err))
		}
	}
	return nil
}

// checkQueryNames refuses what the contract does not know: a misspelt wait_ms
// would not wait, and say nothing.
func (op *operation) checkQueryNames(query url.Values) error {
	for name, values := range query {
		i := slices.IndexFunc(op.params, func(p *openapi3.Parameter) bool {
			return p.In == openapi3.ParameterInQuery && p.Name == name
		})
		if i < 0 {
			return service.Invalid(name, "there is no such query parameter")
		}
		if len(values) > 1 && !op.params[i].Schema.Value.Type.Is(openapi3.TypeArray) {
			return service.Invalid(name, "is given twice")
		}
	}
	return nil
}

// checkBody holds the body against the schema, and hands it on.
func (op *operation) checkBody(c *gin.Context, text []byte) error {
	if op.body == nil {
		if len(text) > 0 {
			return service.Invalid("", "this operation takes no body")
		}
		return nil
	}
	value, err := decodeJSON(text)
	if err != nil {
		return err
	}
	if err := op.body.VisitJSON(value, openapi3.VisitAsRequest()); err != nil {
		return schemaFault(err)
	}
	c.Request.Body = &checkedBody{value: value}
	return nil
}

// readBody reads the whole body, also where none is expected: net/http notices
// that a client left only after that.
func readBody(c *gin.Context, timeout time.Duration) ([]byte, error) {
	ctl := http.NewResponseController(c.Writer)
	_ = ctl.SetReadDeadline(time.Now().Add(timeout)) // where there is a connection
	text, err := io.ReadAll(http.MaxBytesReader(innermost(c.Writer), c.Request.Body, maxBody))
	if err == nil {
		// Else the end of a wait would be the end of the connection.
		_ = ctl.SetReadDeadline(time.Time{})
		return text, nil
	}
	// The deadline stays: net/http reads on, to see whether there is much left.
	c.Header("Connection", "close")
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, bodyTooLarge
	}
	return nil, &service.Error{Kind: service.KindInvalidArgument, Detail: "the body did not arrive whole", Err: err}
}

// checkedBody hands the value that was held against the contract to the
// generated code, which would else decode the text again, and less strictly.
type checkedBody struct {
	value any
}

func (b *checkedBody) ValidatedValue() any      { return b.value }
func (b *checkedBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (b *checkedBody) Close() error             { return nil }

// schemaFault names the field at fault and the rule, never the value: it may be
// a token.
func schemaFault(err error) error {
	var fault *openapi3.SchemaError
	if !errors.As(err, &fault) {
		return &service.Error{Kind: service.KindInvalidArgument, Detail: "the body does not fit the contract", Err: err}
	}
	path := fault.JSONPointer()
	if fault.SchemaField == "properties" {
		path = append(path, unknownProperty(fault))
	}
	return service.Invalid(fieldPath(path), reasonOf(err))
}

// unknownProperty finds the first property that the schema does not have, which
// the error says only in words.
func unknownProperty(fault *openapi3.SchemaError) string {
	object, _ := fault.Value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if fault.Schema.Properties[name] == nil {
			return name
		}
	}
	return ""
}

// fieldPath writes ["ownerships", "3", "token"] as ownerships[3].token.
func fieldPath(path []string) string {
	var b strings.Builder
	for _, step := range path {
		switch {
		case isIndex(step):
			b.WriteString("[" + step + "]")
		case b.Len() > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return b.String()
}

var isIndex = regexp.MustCompile(`^[0-9]+$`).MatchString

// reasonOf is the rule that was broken, without what was sent.
func reasonOf(err error) string {
	var fault *openapi3.SchemaError
	if errors.As(err, &fault) {
		return fault.Reason
	}
	if errors.Is(err, openapi3filter.ErrInvalidRequired) {
		return "is required"
	}
	if errors.Is(err, openapi3filter.ErrInvalidEmptyValue) {
		return "must not be empty"
	}
	return "is malformed"
}
