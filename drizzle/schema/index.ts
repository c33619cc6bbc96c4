export * from "./audit.ts";
export * from "./certificate.ts";
export * from "./config.ts";
export * from "./deployment.ts";
export * from "./enrollment.ts";
export * from "./fleet.ts";
export * from "./ingest.ts";
export * from "./operator.ts";
