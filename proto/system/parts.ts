import { type Credential, credentials } from "./credentials.ts";
import { partStates, type SystemPart } from "./report.ts";

/** The components of an installation, with their titles. */
export const components = {
  core: "Core",
  web: "Web",
  database: "Database",
  ingest: "Ingest",
  export: "Export",
  signer: "Signer",
  directory: "Directory",
  chat: "Chat",
  certificates: "Certificates",
} as const;

/** A component of an installation. */
export type SystemComponent = keyof typeof components;

/** The component of a part, its title, and what to do while it is not ready or has a warning, commands and settings between backticks. */
type PartDeclaration = readonly [component: SystemComponent, title: string, remedy: string];

const replaceFiles = "Replace the files: docs/rotate.md.";

/** The parts of an installation by their names, which are those of the checks of `/readyz`. */
const declarations: Readonly<Record<string, PartDeclaration>> = {
  process: ["core", "Process", "Read the end of its log, then start it again."],
  stopping: ["core", "Requests", "Nothing, if somebody stopped it."],
  clock: ["core", "Clock", "Set the wrong clock: this machine's or the database's."],
  streams: ["core", "Streams", "Nothing unless it lasts: docs/scale.md."],
  license: ["core", "License", "Renew it, or revoke hosts that no longer exist."],
  sign_ins: [
    "web",
    "Sign-ins",
    "See who and why: `svc-admin audit list --action operator.sign_in`.",
  ],
  database: [
    "database",
    "Server",
    "Start PostgreSQL, or correct `SVC_DATABASE_URL`: docs/database.md.",
  ],
  durability: ["database", "Durability", "Set `fsync = on`, and reload PostgreSQL."],
  migrations: [
    "database",
    "Schema",
    "Start a core of the newest version: it migrates the database.",
  ],
  retention: [
    "database",
    "Retention",
    "Set the clock; if it is right, wait or run `svc-server confirm-clock`.",
  ],
  ingest: ["ingest", "Listener", "Set `SVC_INGEST_GRPC_ADDR`."],
  committer: [
    "ingest",
    "Commits",
    "Check PostgreSQL's disk and locks, and the object store; core's log has the cause.",
  ],
  objects: [
    "ingest",
    "Objects",
    "Make the store available: docs/ingest-stores.md. If it was set back, put its newer state back. Hosts and ranges: `svc-admin audit list --action ingest.lost`.",
  ],
  ingest_tls_files: ["ingest", "TLS files", replaceFiles],
  revocation: ["ingest", "Revocation", "Set `SVC_INGEST_REQUIRE_ENROLLMENT=true`."],
  delivery: ["export", "Delivery", "See docs/export-failures.md."],
  signer: ["signer", "Signer", "See docs/enroll.md#signers."],
  enrollment_ca_files: ["signer", "CA files", replaceFiles],
  directory: ["directory", "Sync", "See docs/directory.md."],
  chat: ["chat", "Chat", "See docs/chat.md."],
};

/** Returns what a part is: by its declaration, a credential by its own, and a followed file by the name of its variable. */
export const describePart = ({ area, name }: Pick<SystemPart, "area" | "name">) => {
  const declared = area === "certificate" ? declareCredential(name) : declarations[name];
  const [component, title, remedy] = declared ?? declareFile(name);
  return { component, title, remedy };
};

const declareCredential = (name: string): PartDeclaration | undefined => {
  const known: Readonly<Record<string, Credential>> = credentials;
  const credential = known[name];
  return (
    credential && [
      "certificates",
      credential.what,
      `Replace it (${credential.change}): docs/${credential.docs}.`,
    ]
  );
};

const declareFile = (name: string): PartDeclaration => [
  componentNames.find((each) => name.startsWith(`${each}_`)) ?? "core",
  `File of SVC_${name.toUpperCase()}`,
  replaceFiles,
];

const componentNames = Object.keys(components) as SystemComponent[];

/** The parts of a component: of one core or export, or of all that share it. */
export interface PartGroup {
  component: SystemComponent;
  /** As "Core vm-1" or "Database". */
  title: string;
  /** The first of its parts in their worst state. */
  worst: SystemPart;
  parts: readonly SystemPart[];
}

/** Groups parts by component, each core and each export by itself: groups in a worse state first, then as declared. */
export const groupParts = (parts: readonly SystemPart[]): PartGroup[] => {
  const described = parts
    .map((part) => ({ part, ...describePart(part) }))
    .sort((a, b) => rankOf(b.part) - rankOf(a.part) || orderOf(a) - orderOf(b));
  const groups = Map.groupBy(described, ({ part, component }) =>
    component === "core" || component === "export"
      ? `${components[component]} ${part.of}`
      : components[component],
  );
  return [...groups].flatMap(([title, [first, ...others]]) =>
    first === undefined
      ? []
      : [
          {
            title,
            component: first.component,
            worst: first.part,
            parts: [first, ...others].map(({ part }) => part),
          },
        ],
  );
};

/** Reports whether a part needs attention. */
export const isIll = ({ state }: Pick<SystemPart, "state">): boolean =>
  state === "not_ready" || state === "warning";

const rankOf = ({ state }: SystemPart) => partStates.indexOf(state);

const orderOf = ({ component }: { component: SystemComponent }) =>
  componentNames.indexOf(component);
