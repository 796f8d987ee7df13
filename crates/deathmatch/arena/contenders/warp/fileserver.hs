{-# LANGUAGE OverloadedStrings #-}
-- Serves a directory with Warp and nothing else: fileserver PORT DIRECTORY
module Main (main) where

import qualified Data.ByteString as S
import qualified Data.ByteString.Char8 as C
import Network.HTTP.Types (hContentType, status200, status404)
import Network.Wai (Application, rawPathInfo, responseFile, responseLBS)
import Network.Wai.Handler.Warp
import System.Environment (getArgs)

main :: IO ()
main = do
  [port, root] <- getArgs
  runSettings (tuned (read port)) (files (C.pack root))

-- Both caches are off unless a duration is set.
tuned :: Port -> Settings
tuned port =
  setHost "127.0.0.1" . setPort port . setTimeout 60
    . setFdCacheDuration 10 . setFileInfoCacheDuration 10 $ defaultSettings

files :: S.ByteString -> Application
files root request respond
  | ".." `S.isInfixOf` path = respond (responseLBS status404 [] "")
  | otherwise = respond (responseFile status200 [(hContentType, kind)] (C.unpack (root <> path)) Nothing)
  where
    path = rawPathInfo request
    kind = maybe "application/octet-stream" snd (safeHead (filter ((`S.isSuffixOf` path) . fst) kinds))
    safeHead xs = case xs of { [] -> Nothing; (x : _) -> Just x }

kinds :: [(S.ByteString, S.ByteString)]
kinds =
  [ (".html", "text/html"), (".txt", "text/plain"), (".png", "image/png")
  , (".css", "text/css"), (".js", "application/javascript") ]
