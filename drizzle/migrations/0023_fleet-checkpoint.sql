CREATE TABLE "fleet_checkpoint" (
	"at" timestamp (3) with time zone PRIMARY KEY NOT NULL,
	"base_at" timestamp (3) with time zone,
	"hosts" integer NOT NULL,
	"names" jsonb NOT NULL,
	"raw_bytes" integer NOT NULL,
	"body" "bytea" NOT NULL
);
