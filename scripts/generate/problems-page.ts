import { problemCatalog, transportStatus } from "#functions/problems.ts";
import { unreadableRequests } from "#kit/problem-document.ts";
import { webProblemCatalog } from "#ui/bff/problems.ts";
import { markdownTable } from "./markdown.ts";

const meaning = {
  retry: "the same request may succeed later, after `Retry-After` where it is given",
  fix_request: "the request must change",
  fix_clock: "the caller's clock must be set; `server_time` is core's",
  renew: "the collector must renew its certificate",
  reenroll: "the collector must enroll again",
  stop: "an operator must act; repeating the request cannot succeed",
};

const rowsOf = (
  catalog: Readonly<Record<string, { status: number; action: string; title: string }>>,
): string[][] =>
  Object.entries(catalog).map(([code, { status, action, title }]) => [
    `\`${code}\``,
    String(status),
    `\`${action}\``,
    title,
  ]);

/** Renders `docs/problems.md`, the whole catalog. */
export const renderProblemsPage = (): string => {
  const rows = Object.entries(problemCatalog).map(([code, { kind, title, action }]) => {
    const { http, connect } = transportStatus[kind];
    return [`\`${code}\``, String(http), connect, `\`${action}\``, title];
  });
  return `# Problems

Every rejection by core has a stable \`code\`. Over HTTP it is an RFC 9457 document (\`application/problem+json\`, \`type\`
\`urn:svc:problem:<code>\`); over gRPC and Connect the code is \`google.rpc.ErrorInfo.reason\`. A few routes return a code with another
status than below; the OpenAPI document has each route's own. Generated from \`functions/problems.ts\` by
\`npx -y bun@1.4.5 run generate\`.

\`action\` names the remedy:

${Object.entries(meaning)
  .map(([action, text]) => `- \`${action}\`: ${text}`)
  .join("\n")}

${markdownTable(["code", "HTTP", "Connect, gRPC", "action", "meaning"], rows)}

## At ingest

The ingest listener names a code in \`google.rpc.ErrorInfo.reason\` (domain \`svc.ingest.v1\`) and uses the gRPC code of the table above, with one
exception. The certificate is authentic there and is not admitted: \`certificate_unknown\`, \`certificate_revoked\`, \`certificate_replaced\` and
\`identity_revoked\` are PermissionDenied, not Unauthenticated. [protocol.md](protocol.md#errors) says what a client does about each.

${markdownTable(
  ["gRPC code", "number", "retry"],
  [
    ["InvalidArgument", "3", "no: fix the client"],
    ["PermissionDenied", "7", "no: enroll, or stop"],
    ["ResourceExhausted", "8", "no: send less at once"],
    ["FailedPrecondition", "9", "from the cursor in the metadata"],
    ["Unimplemented", "12", "no: the method does not exist"],
    ["Internal", "13", "yes, after a pause"],
    ["Unavailable", "14", "yes, after a pause"],
    ["Unauthenticated", "16", "no: use a valid certificate"],
  ],
)}

## Any listener

A listener rejects what it cannot parse as a request, in the same form, and closes the connection.

${markdownTable(["code", "HTTP", "action", "meaning"], rowsOf(unreadableRequests))}

## Web

Web returns core's problems unchanged, except 401, which ends the session. Its own have the same form and are defined in
\`ui/bff/problems.ts\`. A failed sign-in shows a page instead: [sign-in.md](sign-in.md).

${markdownTable(["code", "HTTP", "action", "meaning"], rowsOf(webProblemCatalog))}
`;
};
