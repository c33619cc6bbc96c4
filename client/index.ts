/** The client of the collector fleet's HTTP API: one function per operation, which can be imported by itself. */
export { connectFleet, type FleetClient, type FleetOptions } from "./connect.ts";
export * from "./gen/index.ts";
export { items, type Page, pages } from "./pages.ts";
export { FleetError } from "./problem.ts";
