import { CodedProblem, type ProblemAction, type ProblemOptions } from "#kit/problem.ts";

/** The kind of a problem, from which `transportStatus` derives the status of HTTP and of Connect. */
export type ProblemKind =
  | "malformed"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "conflict"
  | "precondition_failed"
  | "too_large"
  | "unsupported_media_type"
  | "invalid"
  | "throttled"
  | "timeout"
  | "unimplemented"
  | "internal"
  | "bad_gateway"
  | "unavailable";

/** HTTP status (RFC 9110) and Connect or gRPC code of each kind. */
export const transportStatus = {
  malformed: { http: 400, connect: "InvalidArgument" },
  unauthenticated: { http: 401, connect: "Unauthenticated" },
  forbidden: { http: 403, connect: "PermissionDenied" },
  not_found: { http: 404, connect: "NotFound" },
  method_not_allowed: { http: 405, connect: "Unimplemented" },
  conflict: { http: 409, connect: "FailedPrecondition" },
  precondition_failed: { http: 412, connect: "FailedPrecondition" },
  too_large: { http: 413, connect: "ResourceExhausted" },
  unsupported_media_type: { http: 415, connect: "InvalidArgument" },
  invalid: { http: 422, connect: "InvalidArgument" },
  throttled: { http: 429, connect: "ResourceExhausted" },
  timeout: { http: 408, connect: "DeadlineExceeded" },
  unimplemented: { http: 404, connect: "Unimplemented" },
  internal: { http: 500, connect: "Internal" },
  bad_gateway: { http: 502, connect: "Unavailable" },
  unavailable: { http: 503, connect: "Unavailable" },
} as const satisfies Record<ProblemKind, { http: number; connect: string }>;

interface Entry {
  kind: ProblemKind;
  title: string;
  action: ProblemAction;
}

const entry = (kind: ProblemKind, action: ProblemAction, title: string): Entry => ({
  kind,
  action,
  title,
});

/** Every problem code of core. Stable: codes are added, never renamed. */
export const problemCatalog = {
  // Conventions of the HTTP API.
  malformed_json: entry("malformed", "fix_request", "The body is not JSON"),
  unauthenticated: entry("unauthenticated", "fix_request", "A valid bearer token is needed"),
  token_clock_skew: entry("unauthenticated", "fix_clock", "The clocks of web and core differ"),
  forbidden: entry("forbidden", "stop", "The caller lacks the scope"),
  access_held: entry(
    "unauthenticated",
    "stop",
    "The database was restored: your access waits for a directory sync, or svc-server confirm-access",
  ),
  not_found: entry("not_found", "fix_request", "No such resource"),
  method_not_allowed: entry(
    "method_not_allowed",
    "fix_request",
    "The path does not accept this method",
  ),
  payload_too_large: entry("too_large", "fix_request", "The body or payload is over the limit"),
  unsupported_media_type: entry(
    "unsupported_media_type",
    "fix_request",
    "The content type is not supported",
  ),
  validation_failed: entry("invalid", "fix_request", "The request does not validate"),
  internal: entry("internal", "retry", "Core failed"),
  service_disabled: entry("unavailable", "stop", "The service is disabled"),
  database_unavailable: entry("unavailable", "retry", "The database cannot be reached"),
  ops_access_denied: entry("forbidden", "stop", "Ops access is not allowed from here"),
  // Sign-in of programs: the codes of RFC 6749 (5.2) and RFC 8628 (3.5).
  invalid_grant: entry(
    "malformed",
    "fix_request",
    "The code or its verifier is not valid; sign in again",
  ),
  authorization_pending: entry("malformed", "retry", "The person has not decided yet"),
  slow_down: entry("malformed", "retry", "The program asks too often; wait five seconds longer"),
  access_denied: entry("malformed", "stop", "The person has refused"),
  expired_token: entry("malformed", "fix_request", "The code has expired; sign in again"),
  logout_token_replayed: entry(
    "conflict",
    "stop",
    "Another logout token with this jti was accepted before",
  ),
  issuer_unavailable: entry(
    "bad_gateway",
    "retry",
    "The keys of the token's issuer cannot be read",
  ),
  // SCIM: each has its `scimType` (RFC 7644, 3.12).
  scim_filter_invalid: entry(
    "malformed",
    "fix_request",
    "The filter is malformed or not supported",
  ),
  scim_path_invalid: entry(
    "malformed",
    "fix_request",
    "The path of the operation names no attribute",
  ),
  scim_syntax_invalid: entry("malformed", "fix_request", "The request is no SCIM message"),
  scim_target_missing: entry("malformed", "fix_request", "The operation has no target"),
  scim_value_invalid: entry("malformed", "fix_request", "A value is missing or not acceptable"),
  scim_read_only: entry("malformed", "fix_request", "The attribute is read-only"),
  scim_value_taken: entry("conflict", "fix_request", "Another resource has this value"),
  scim_too_many_requests: entry(
    "throttled",
    "retry",
    "The identity provider sends too many requests",
  ),
  // Enrollment.
  policy_name_taken: entry("conflict", "fix_request", "Another policy has this name"),
  policy_frozen: entry("forbidden", "stop", "The enrollment policy is frozen"),
  token_invalid: entry("unauthenticated", "stop", "The enrollment token is not valid"),
  source_not_allowed: entry("forbidden", "stop", "The source address is not allowed"),
  identity_not_allowed: entry(
    "forbidden",
    "fix_request",
    "The identity is not an allowed prefix and the device id",
  ),
  device_not_allowed: entry("forbidden", "stop", "The token is bound to another device"),
  platform_not_allowed: entry("forbidden", "stop", "The platform is not allowed"),
  enrollment_limit_reached: entry("forbidden", "stop", "The policy's enrollment limit is reached"),
  enrollment_rate_limited: entry(
    "throttled",
    "retry",
    "The policy's hourly rollout limit is reached",
  ),
  enrollment_in_progress: entry("conflict", "retry", "This identity is being enrolled right now"),
  identity_revoked: entry("forbidden", "stop", "The identity is revoked"),
  identity_exists: entry("conflict", "stop", "The identity has an active certificate"),
  csr_invalid: entry("invalid", "fix_request", "The certificate request is not acceptable"),
  throttled: entry("throttled", "retry", "Too many failed enrollments from this address"),
  signer_failed: entry("bad_gateway", "retry", "The certificate signer failed"),
  // Fleet health.
  no_history: entry("invalid", "fix_request", "There is no history of this time"),
  filter_without_history: entry("invalid", "fix_request", "The filter has a term without history"),
  too_many_exports: entry("throttled", "retry", "This operator has too many exports in flight"),
  diag_pending: entry("conflict", "retry", "The host has not sent its diagnostics yet"),
  diag_forbidden: entry(
    "conflict",
    "stop",
    "The host's own config forbids it: management.remote_diag is false",
  ),
  diag_too_large: entry(
    "conflict",
    "stop",
    "The host's diagnostics are over the limit: run svc-collector diag on it",
  ),
  diag_unanswered: entry(
    "conflict",
    "stop",
    "The host did not answer in time: see when it was last seen",
  ),
  // Watches.
  watch_name_taken: entry("conflict", "fix_request", "Another watch has this name"),
  watch_without_receivers: entry("conflict", "fix_request", "The watch has no receiver"),
  too_many_watches: entry("conflict", "fix_request", "The limit of watches is reached"),
  // Budgets.
  too_many_budgets: entry("conflict", "fix_request", "The limit of budgets is reached"),
  // Inventory.
  inventory_invalid: entry("invalid", "fix_request", "The inventory does not validate"),
  inventory_empty: entry(
    "invalid",
    "fix_request",
    "The inventory has no host; allow_empty=true lets it expect none",
  ),
  inventory_changed: entry(
    "precondition_failed",
    "fix_request",
    "The inventory has another ETag than If-Match names",
  ),
  // Chat.
  inference_failed: entry("bad_gateway", "retry", "The language model failed"),
  too_many_conversations: entry("throttled", "retry", "Too many answers are being written"),
  // Central config.
  config_invalid: entry("invalid", "fix_request", "The collector config does not validate"),
  config_contains_secret: entry("invalid", "fix_request", "The collector config contains a secret"),
  conflict: entry(
    "conflict",
    "fix_request",
    "The resource is not in the state that the request expects",
  ),
  no_last_known_good: entry(
    "conflict",
    "stop",
    "The collector has reported no last known good config",
  ),
  last_known_good_not_stored: entry(
    "conflict",
    "stop",
    "The last known good config is not among the published ones",
  ),
  apply_in_progress: entry("conflict", "retry", "This set is being applied"),
  rollout_overlap: entry(
    "conflict",
    "retry",
    "Another rollout that has not ended has some of these hosts",
  ),
  rollout_state: entry("conflict", "fix_request", "The rollout is not in a state that allows this"),
  rollout_waves_invalid: entry(
    "invalid",
    "fix_request",
    "The waves must rise to all hosts of the filter",
  ),
  rollout_without_targets: entry(
    "invalid",
    "fix_request",
    "The filter has no host whose config core may change",
  ),
  rollout_config_unparsable: entry(
    "invalid",
    "fix_request",
    "No host of the filter can parse the config",
  ),
  config_kind_mismatch: entry(
    "invalid",
    "fix_request",
    "Some of these hosts are agents of another kind than the config",
  ),
  config_key_unknown: entry(
    "invalid",
    "fix_request",
    "Some of these hosts run a version that does not know a key of the config",
  ),
  // Management requests.
  client_certificate_required: entry(
    "unauthenticated",
    "fix_request",
    "A client certificate is needed",
  ),
  client_certificate_header_invalid: entry(
    "malformed",
    "fix_request",
    "The client certificate header is not one PEM",
  ),
  certificate_unknown: entry("unauthenticated", "reenroll", "The certificate is not known"),
  certificate_revoked: entry("unauthenticated", "stop", "The certificate is revoked"),
  certificate_replaced: entry(
    "unauthenticated",
    "reenroll",
    "The certificate was replaced by its successor",
  ),
  agent_not_allowed: entry(
    "unauthenticated",
    "stop",
    "The certificate belongs to an agent of another kind",
  ),
  certificate_expired: entry("unauthenticated", "reenroll", "The certificate has expired"),
  identity_mismatch: entry(
    "forbidden",
    "fix_request",
    "The certificate request asks for another identity",
  ),
  proof_invalid: entry("unauthenticated", "fix_request", "The proof of possession does not verify"),
  clock_skew: entry("unauthenticated", "fix_clock", "sent_at is too far from core's clock"),
  stale_request: entry("conflict", "retry", "A newer request was already accepted"),
  rate_limited: entry("throttled", "retry", "Too many requests from this collector"),
  diag_not_requested: entry(
    "conflict",
    "stop",
    "Core did not request this, has an answer, or stopped waiting",
  ),
  agent_message_invalid: entry("malformed", "fix_request", "The OpAMP message is not valid"),
  // Ingest.
  host_identity_mismatch: entry(
    "forbidden",
    "fix_request",
    "host_id is not the certificate's identity",
  ),
  host_id_too_long: entry("invalid", "fix_request", "host_id is over the limit"),
  certificate_identity_invalid: entry(
    "unauthenticated",
    "reenroll",
    "The certificate has no single DNS or URI SAN",
  ),
  sequence_gap: entry("conflict", "retry", "A frame before this one is missing"),
  frame_too_large: entry("too_large", "fix_request", "The frame is over the limit"),
  frame_invalid: entry("invalid", "fix_request", "The frame is not valid"),
  session_superseded: entry("conflict", "retry", "A newer session has opened this queue"),
  queue_forked: entry(
    "conflict",
    "retry",
    "Another copy of this queue has sent under its sequences",
  ),
  too_many_streams: entry("throttled", "retry", "The identity has too many open streams"),
  too_many_connections: entry("throttled", "retry", "The identity has too many connections"),
  body_timeout: entry("timeout", "retry", "The body or message was not complete in time"),
  method_unknown: entry("unimplemented", "fix_request", "The service has no such method"),
  shutting_down: entry("unavailable", "retry", "Core is shutting down"),
  stream_moved: entry("unavailable", "retry", "The core has more streams than others"),
  budget_exceeded: entry("throttled", "retry", "The host has used up its budget of this hour"),
  overloaded: entry("unavailable", "retry", "Core is at its limit of uncommitted data"),
  store_unavailable: entry(
    "unavailable",
    "retry",
    "An object store is unavailable, or core still reads what the database lacks from it",
  ),
  stream_unavailable: entry("unavailable", "retry", "The stream of envelopes stores nothing now"),
} as const satisfies Record<string, Entry>;

/** A code of the catalog. */
export type ProblemCode = keyof typeof problemCatalog;

/** The optional parts of a problem; `kind` overrides the catalog's where one code has two statuses. */
interface CoreProblemOptions extends ProblemOptions {
  kind?: ProblemKind;
}

/** A refusal by core: `throw new Problem("token_invalid", { cause })`. */
export class Problem extends CodedProblem<ProblemCode> {
  readonly kind: ProblemKind;

  constructor(code: ProblemCode, { kind, ...options }: CoreProblemOptions = {}) {
    super(code, { detail: problemCatalog[code].title, ...options });
    this.kind = kind ?? problemCatalog[code].kind;
  }
}

/** Returns what was found. Throws 404 `not_found` without it; `what` names it. */
export const requireFound = <Found>(found: Found | undefined, what?: string): Found => {
  if (found !== undefined) return found;
  throw new Problem("not_found", what === undefined ? {} : { detail: `No such ${what}` });
};
