CREATE TABLE "inventory" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"sha256" "bytea" NOT NULL,
	"hosts" integer NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "inventory_singleton" CHECK ("inventory"."singleton")
);
--> statement-breakpoint
CREATE TABLE "inventory_host" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"owner" text,
	"labels" jsonb NOT NULL,
	"removed_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE INDEX "inventory_host_removed" ON "inventory_host" USING btree ("name") WHERE "inventory_host"."removed_at" is not null;