CREATE TABLE "applied_set" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"revision" integer NOT NULL,
	"content" text NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"updated_by_name" text NOT NULL
);
