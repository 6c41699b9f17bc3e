-- Feeds are fetched no more once their tables are gone.
DROP VIEW feeds.feeds;
DROP TABLE feeds.opml, feeds.delivery, feeds.websub, feeds.entry, feeds.subscription, feeds.address, feeds.feed;
DROP SCHEMA feeds;
