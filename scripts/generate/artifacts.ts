import { readFileSync } from "node:fs";
import { renderCalendar } from "./calendar-table.ts";
import { renderCharts } from "./charts.ts";
import { renderChatRelationsPage } from "./chat-relations-page.ts";
import { renderCollectorKeys, renderConfigurations } from "./configuration.ts";
import { documentedRoutes } from "./documented-routes.ts";
import { renderGoals } from "./goals-table.ts";
import { renderIngestMessages } from "./ingest-messages.ts";
import { replaceRegion } from "./markdown.ts";
import { renderMetrics } from "./metrics-table.ts";
import { historyFile, renderHistory } from "./migration-history.ts";
import { namedSchemas } from "./name-schemas.ts";
import { renderNumberLists } from "./number-lists.ts";
import { renderOpampConformance } from "./opamp-conformance.ts";
import { openApiOf } from "./openapi.ts";
import { operationsOf } from "./operations.ts";
import { renderProblemCodes, renderProblemsPage } from "./problems-page.ts";
import { renderReachedRoutes } from "./reached-routes.ts";
import { renderReadableRoutes } from "./readable-routes.ts";

/** A committed file and the text that it must have. */
export interface Artifact {
  path: string;
  text: string;
}

/** Writes JSON with what fits a line of 100 characters on one. */
const writeJson = (value: unknown, indent = "", before = 0): string => {
  const line = JSON.stringify(value);
  if (typeof value !== "object" || value === null || before + line.length <= 100) return line;
  const within = `${indent} `;
  const lines = Object.entries(value).map(([name, member]) => {
    const start = Array.isArray(value) ? within : `${within}${JSON.stringify(name)}: `;
    return `${start}${writeJson(member, within, start.length)}`;
  });
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${lines.join(",\n")}\n${indent}${close}`;
};

/** Renders `proto/openapi.json`, and what svc-admin reads of it. */
export const renderOpenApi = async (): Promise<Artifact[]> => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  const title = "Collector fleet management and operator access";
  const document = openApiOf(documentedRoutes(), { title, version, named: await namedSchemas() });
  return [
    { path: "proto/openapi.json", text: `${writeJson(document)}\n` },
    { path: "admin/commands/operations.json", text: `${JSON.stringify(operationsOf(document))}\n` },
  ];
};

const renderConfigurationPage = (path: string): Artifact => {
  const regions = Object.entries(renderConfigurations());
  const text = regions.reduce(
    (page, [name, table]) => replaceRegion(page, name, table),
    readFileSync(path, "utf8"),
  );
  return { path, text };
};

const renderRegion = (path: string, region: string, content: string): Artifact => ({
  path,
  text: replaceRegion(readFileSync(path, "utf8"), region, content),
});

/** Renders every file that is generated from code, except those that buf, drizzle-kit and the client generator write. */
export const renderArtifacts = async (): Promise<Artifact[]> => [
  { path: historyFile, text: await renderHistory() },
  ...(await renderOpenApi()),
  { path: "docs/problems.md", text: renderProblemsPage() },
  { path: "proto/gen/problem-codes.ts", text: renderProblemCodes() },
  { path: "proto/gen/readable-routes.ts", text: renderReadableRoutes() },
  { path: "proto/gen/ingest-messages.ts", text: renderIngestMessages() },
  { path: "docs/chat-relations.md", text: renderChatRelationsPage() },
  { path: "docs/performance-goals.md", text: renderGoals() },
  { path: "docs/opamp-conformance.md", text: renderOpampConformance() },
  ...renderNumberLists(),
  ...renderCharts(),
  renderConfigurationPage("docs/configuration.md"),
  renderRegion("docs/operate.md", "metrics", renderMetrics()),
  renderRegion("docs/rotate.md", "calendar", renderCalendar()),
  renderRegion("docs/security.md", "reached", renderReachedRoutes()),
  renderRegion("docs/collector-keys.md", "keys", renderCollectorKeys()),
];
