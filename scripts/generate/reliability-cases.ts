/** A fault or an attack that the system must withstand. */
export interface ReliabilityCase {
  id: string;
  happens: string;
  holds: string;
}

/** All of them, by area. A test that covers one names its id: `it("H3: accepts sent_at exactly 120 s old", …)`. */
export const reliabilityCases: Readonly<Record<string, readonly ReliabilityCase[]>> = {
  Enrollment: [
    { id: "E1", happens: "100 parallel enrollments, use limit 1", holds: "exactly one certificate" },
    {
      id: "E2",
      happens: "kill -9 between signing and commit",
      holds: "no certificate in use without a row; serial reserved first",
    },
    { id: "E3", happens: "freeze or revoke in mid-request", holds: "rechecked in the issuing transaction" },
    { id: "E4", happens: "unknown, expired, exhausted token", holds: "same body, overlapping timing" },
    { id: "E5", happens: "rotating X-Forwarded-For", holds: "socket address used" },
    { id: "E6", happens: "`::ffff:10.0.0.1`", holds: "same as its IPv4" },
    {
      id: "E7",
      happens: "attacker behind a shared proxy fails 10,000 times",
      holds: "a valid token still enrolls (look the hash up first, throttle failures only)",
    },
    {
      id: "E8",
      happens: "CSR with CA:TRUE, serverAuth, two SANs, wildcard, critical extensions",
      holds: "refused, or nothing copied",
    },
    { id: "E9", happens: "URI `x/a, DNS:b`, NUL, 254 bytes", holds: "parsed from DER, refused" },
    { id: "E10", happens: "bad CSR signature, RSA-1024, malformed EKU, 1 MB", holds: "4xx, alive" },
    { id: "E11", happens: 'TTL −1, 0, 7 d + 1, 2^53, "60"', holds: "exact bounds" },
    { id: "E12", happens: "raw token in logs, database, errors", holds: "found nowhere" },
  ],
  Renewal: [
    {
      id: "R1",
      happens: "answer lost",
      holds: "old stays active until the new is used; retry with the same key gets the same certificate",
    },
    { id: "R2", happens: "10 parallel renewals", holds: "one lineage" },
    { id: "R3", happens: "old certificate after its successor was used", holds: "refused, audited" },
    { id: "R4", happens: "revoke while signing", holds: "no usable certificate" },
    { id: "R5", happens: "fault at each system call of the pair swap", holds: "pair matches, or rolled back" },
    { id: "R6", happens: "planted symlink or 0644 temp file", holds: "O_EXCL, O_NOFOLLOW, 0600" },
    { id: "R7", happens: "clock −1 d, +40 d", holds: "bounded backoff, `renewal_failed` shown" },
    { id: "R8", happens: "wrong key, SAN or chain returned", holds: "old pair keeps working" },
  ],
  Proofs: [
    { id: "H1", happens: "replay inside the window", holds: "refused or no effect; timestamps never go back" },
    { id: "H2", happens: "heartbeat proof at renew", holds: "refused" },
    { id: "H3", happens: "`sent_at` at the window's edge ±1 ms, year 9999", holds: "exact" },
    { id: "H4", happens: "empty, truncated, P1363, wrong-algorithm signature", holds: "401" },
    { id: "H5", happens: "queue −1, 2^63, ANSI escapes in hostname", holds: "422" },
    { id: "H6", happens: "another identity's desired config", holds: "no oracle" },
  ],
  "Proxy header": [
    { id: "P1", happens: "header while unset", holds: "ignored" },
    { id: "P2", happens: "victim's public certificate without its key", holds: "401" },
    {
      id: "P3",
      happens: "duplicate header, `x_client_cert`",
      holds: 'refused / ignored (Hono joins duplicates as "A, B")',
    },
    { id: "P4", happens: "`Connection: X-Client-Cert`", holds: "401" },
    { id: "P5", happens: "two PEMs, trailing junk, double encoding", holds: "400" },
    { id: "P6", happens: "header sent to the ingest listener", holds: "ignored, the TLS certificate decides" },
  ],
  Ingest: [
    { id: "G1", happens: "gzip bomb, 4 GiB length prefix", holds: "RESOURCE_EXHAUSTED, memory grows under 64 MB" },
    { id: "G2", happens: "rapid reset, CONTINUATION flood, slow stream", holds: "closed, others' p99 holds" },
    { id: "G3", happens: "unknown enum, malformed protobuf", holds: "error for that message, process alive" },
    { id: "G4", happens: "revocation or expiry on an open stream", holds: "cut within 5 s" },
    { id: "G5", happens: "random kills of core", holds: "acked ⊆ stored, no duplicates" },
    { id: "G6", happens: "host_id by case, trailing dot, CN only", holds: "refused" },
    { id: "G7", happens: "one unmatched span, or malformed OTLP", holds: "not discarded" },
    { id: "G8", happens: "10,000 streams of one identity", holds: "bounded, others unaffected" },
  ],
  Queue: [
    {
      id: "Q1",
      happens: "kill at the Nth write, fsync, rename, unlink, for every N",
      holds: "accepted ⊆ recovered, start under 2 s",
    },
    { id: "Q2", happens: "unsynced pages lost (modelled)", holds: "the same" },
    { id: "Q3", happens: "disk full, read-only file system", holds: "block or drop-newest as configured, recovers" },
    { id: "Q4", happens: "fsync EIO", holds: "never treated as durable afterwards" },
    { id: "Q5", happens: "torn tail, bit flip, missing file", holds: "quarantined and counted; no crash loop" },
    { id: "Q6", happens: "wrap-around, record larger than cap", holds: "agrees with a model" },
    { id: "Q7", happens: "clock ±10 years", holds: "no mass expiry" },
    { id: "Q8", happens: "second process on the same queue", holds: "exits, clear message" },
    { id: "Q9", happens: "record refused for good", holds: "set aside, counted, the rest flows" },
    { id: "Q10", happens: "queue of the previous version", holds: "read; downgrade refuses cleanly" },
  ],
  Signer: [
    {
      id: "S1",
      happens: "hang, grandchild, 1 GB stdout, closed stdin, non-zero exit, duplicate JSON keys",
      holds: "timeout, group kill, cap, refused",
    },
    { id: "S2", happens: "other key, CA:TRUE, extra SAN, longer TTL, two PEMs", holds: "not recorded" },
    { id: "S3", happens: "inherited environment, file descriptors", holds: "no secrets" },
    { id: "S4", happens: "arguments, relative path, writable executable", holds: "start fails" },
  ],
  "CA key": [
    { id: "C1", happens: "0640, symlink to 0644", holds: "refused by fstat of the open file" },
    { id: "C2", happens: "mismatch, no keyCertSign, CA that ends sooner", holds: "fails / clamps" },
    { id: "C3", happens: "key set in external mode", holds: "start fails; key bytes never logged" },
  ],
  Database: [
    { id: "D1", happens: "immediate restart ×100 under load", holds: "no lost ack, ready in 5 s" },
    { id: "D2", happens: "failover (SQLSTATE 25006)", holds: "reconnects, 503 meanwhile" },
    { id: "D3", happens: "SIGSTOP of PostgreSQL", holds: "timeouts, bounded memory" },
    { id: "D4", happens: "two migrators, kill in the middle", holds: "advisory lock, resumable" },
    { id: "D5", happens: "disk full, connections exhausted", holds: "503" },
    { id: "D6", happens: "NUL in text", holds: "422" },
    { id: "D7", happens: "previous core on the new schema", holds: "serves" },
  ],
  Directory: [
    {
      id: "Y1",
      happens: "zero users, page 2 fails, truncated page",
      holds: "snapshot discarded, last good kept, alarm",
    },
    { id: "Y2", happens: "mass absence", holds: "absences held, explicit suspensions applied at once" },
    { id: "Y3", happens: "group 404", holds: "`read`; 403 or 5xx → previous kept" },
    { id: "Y4", happens: "kill in mid-commit", holds: "atomic" },
    { id: "Y5", happens: "reused email with a new `sub`, look-alike domain", holds: "no inheritance" },
  ],
  "Sign-in, web": [
    { id: "A1", happens: "faults of state, nonce, PKCE, `iss`, alg-none id_token", holds: "refused" },
    { id: "A2", happens: "pre-set session cookie", holds: "rotated" },
    { id: "A3", happens: "person suspended in mid-session", holds: "next request denied" },
    { id: "A4", happens: "bridge token with alg none, other `aud`, no exp, `Basic`", holds: "401" },
    { id: "A5", happens: "POST without Content-Type or from another origin", holds: "403" },
    { id: "A6", happens: "`//evil`, `/\\evil` as return address", holds: "local only" },
    { id: "A7", happens: "CSP, no-store, cookie flags, `__Secure-`", holds: "" },
  ],
  API: [
    { id: "I1", happens: "every route × scope, from the router itself", holds: "default deny" },
    { id: "I2", happens: "chunked oversize body, deep nesting, `__proto__`", holds: "4xx" },
    { id: "I3", happens: "YAML alias bomb, tags, embedded PEM", holds: "4xx in under 50 ms" },
    { id: "I4", happens: "CSV cells `= + - @`, tab, CR, fullwidth `＝`", holds: "neutralised, numbers intact" },
    { id: "I5", happens: "CR, LF, U+2028", holds: "one JSON log line" },
    { id: "I6", happens: "`%`, `_`, `\\`, sort names, cursor tampering", holds: "safe" },
    { id: "I7", happens: "100 KB against each regular expression", holds: "under 10 ms" },
    { id: "I8", happens: "loopback-trusted ops through a proxy", holds: "403" },
  ],
  Chat: [
    {
      id: "T1",
      happens:
        "`COPY TO PROGRAM`, `pg_read_file`, dblink, `lo_create`, `pg_sleep`, `set_config`, `commit; insert`, `set transaction read write`, pg_authid, advisory locks, `pg_notify`",
      holds: "refused by the parser *and* by the role (a separate login role; a superuser DSN must not matter)",
    },
    { id: "T2", happens: "instructions inside a hostname or config", holds: "data" },
    { id: "T3", happens: "base URL from a request, redirects", holds: "impossible" },
    { id: "T4", happens: "1 GB result", holds: "cancelled, capped" },
    { id: "T5", happens: "receipt edited, reordered, truncated, spliced, key swapped", holds: "verification fails" },
    { id: "T6", happens: "kill in mid-answer", holds: "chain closed as aborted" },
  ],
  "Release, supply": [
    { id: "M1", happens: "`../`, symlink, file changing while hashed", holds: "refused" },
    { id: "M2", happens: "duplicate or unknown keys, bad SemVer, short digest", holds: "non-zero, no partial output" },
    { id: "M3", happens: "shuffled spec, other time zone", holds: "identical bytes" },
    {
      id: "U1",
      happens: "exact pins, frozen lockfile, no install scripts but the listed ones, no git dependencies",
      holds: "",
    },
    { id: "U2", happens: "rebuilt from a clean cache", holds: "same hashes" },
  ],
};
