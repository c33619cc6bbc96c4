import { readFileSync } from "node:fs";
import { renderCoreConfiguration, renderWebConfiguration } from "./configuration.ts";
import { documentedRoutes, namedSchemas } from "./documented-routes.ts";
import { openApiOf } from "./openapi.ts";
import { renderProblemsPage } from "./problems-page.ts";
import { replaceRegion } from "./region.ts";
import { renderReliabilityPage } from "./reliability-page.ts";

/** A committed file that a program writes; verify fails when it is not what `render` gives. */
export interface Artifact {
  path: string;
  render(): string;
}

const renderOpenApi = (): string => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  const title = "Collector fleet management and operator access";
  return `${JSON.stringify(openApiOf(documentedRoutes(), { title, version, named: namedSchemas }), null, 2)}\n`;
};

/** Everything generated from the code, except what buf and drizzle-kit write. */
export const artifacts: readonly Artifact[] = [
  { path: "proto/openapi.json", render: renderOpenApi },
  { path: "docs/problems.md", render: renderProblemsPage },
  { path: "docs/reliability.md", render: renderReliabilityPage },
  {
    path: "docs/operate.md",
    render: () => replaceRegion(readFileSync("docs/operate.md", "utf8"), "configuration", renderCoreConfiguration()),
  },
  {
    path: "docs/deploy-web.md",
    render: () => replaceRegion(readFileSync("docs/deploy-web.md", "utf8"), "configuration", renderWebConfiguration()),
  },
];
