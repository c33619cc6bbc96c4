import { problemCatalog, transportStatus } from "../../functions/problems.ts";
import { unreadableRequests } from "../../kit/problem-document.ts";
import { webProblemCatalog } from "../../ui/bff/problems.ts";
import { markdownTable } from "./markdown.ts";

const meaning = {
  retry: "the same request may succeed later, after `Retry-After` where it is given",
  fix_request: "the request must change",
  fix_clock: "the caller's clock must be set; `server_time` tells core's",
  renew: "the collector must renew its certificate",
  reenroll: "the collector must enroll again",
  stop: "an operator must act; repeating it is pointless",
};

/** `docs/problems.md`: the whole catalog as a table. */
export const renderProblemsPage = (): string => {
  const rows = Object.entries(problemCatalog).map(([code, { kind, title, action }]) => {
    const { http, connect } = transportStatus[kind];
    return [`\`${code}\``, String(http), connect, `\`${action}\``, title];
  });
  const webRows = Object.entries(webProblemCatalog).map(([code, { status, action, title }]) => [
    `\`${code}\``,
    String(status),
    `\`${action}\``,
    title,
  ]);
  const listenerRows = Object.entries(unreadableRequests).map(([code, { status, action, title }]) => [
    `\`${code}\``,
    String(status),
    `\`${action}\``,
    title,
  ]);
  return `# Problems

Every refusal by core has a stable \`code\`. Over HTTP it is an RFC 9457 document (\`application/problem+json\`, \`type\`
\`urn:svc:problem:<code>\`); over gRPC and Connect the code is \`google.rpc.ErrorInfo.reason\`. A few routes answer a code with another
status than the usual one below; the OpenAPI document has each route's own. Generated from \`functions/problems.ts\` by
\`bun run generate\`.

\`action\` says what helps:

${Object.entries(meaning)
  .map(([action, text]) => `- \`${action}\`: ${text}`)
  .join("\n")}

${markdownTable(["code", "HTTP", "Connect, gRPC", "action", "meaning"], rows)}

## Any listener

What cannot be read as a request is refused before core or web sees it, in the same form; the connection ends with it.

${markdownTable(["code", "HTTP", "action", "meaning"], listenerRows)}

## Web

Web passes core's problems on as they are, except 401: that ends the session. Its own have the same form, and come from
\`ui/bff/problems.ts\`. Why somebody was not let in is no problem document but a page: [sign-in.md](sign-in.md).

${markdownTable(["code", "HTTP", "action", "meaning"], webRows)}
`;
};
