import { labPkiIn } from "../ca/pki.ts";

/** The folder of a lab's secrets. */
export const secretsFolder = "/lab/secrets";

/** Where the lab's certificates are. */
export const labPki = labPkiIn("/lab/pki");

/** Names under which services of the lab reach each other. */
export const serviceNames = ["core", "edge", "directory"] as const;

/** Ports of the lab's own services. */
export const ports = { edge: 9443, directory: 9444 } as const;
